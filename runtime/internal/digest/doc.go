// Package digest makes few lines of many parked events: which belong together, and what a person is told about them.
//
// # Contract
//
// Events belong together that failed in one function, in one class, with the same text but for what differs from event to event: numbers, ids,
// times, addresses and quoted parts. [Normalise] is that text, and [Fingerprint] the short id of it, which is the same on every machine and in
// every version that normalises alike. What a digest says why is the normalised text, so that values which an error quotes do not travel with it.
//
// A [Fold] takes any number of events and holds a bounded number of groups, of sources in each, and of bytes in every text: what is beyond that is
// counted and not named. A line of it has four facts: how many, since when, from whom, why.
//
//	file-claim: 37 parked since 02:10 UTC, all from //broker.example/portal, because date of loss is missing (permanent, group 4f1c9a2b3d)
//
// Everything here is pure: no clock, no I/O, any bytes.
package digest
