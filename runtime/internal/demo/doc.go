// Package demo is what siding demo shows: a day of an insurer in some seconds.
//
// # The story
//
// The portal of the brokers sends claim reports, and invoices that belong to
// them. Events of one policy carry its number as their ordering key. A function
// files them in a contract system, which is away for a moment: what fails
// meanwhile is attempted again. The reports of one broker lack the date of
// loss, which no retry can help: they are parked, and the invoices of their
// policies are held behind them. The broker is asked, and with its answers the
// dead letters are edited; a claim that was reported twice is discarded.
//
// # Guarantee
//
// Every number that is printed is counted, most by the node's API, and nothing
// is claimed that was not checked: the contract system keeps a book, and at the
// end each event must stand in it once, each policy's events in the order in
// which they were accepted. What does not hold is an error, and so is whatever
// takes longer than it may.
//
// The package uses what a user's program has: functions, the HTTP API by
// package client, and a node that it is given.
//
// # Concurrency
//
// [Run] starts the node in one goroutine and waits for its end. The contract
// system is called by the node's workers and guards itself by a mutex.
package demo
