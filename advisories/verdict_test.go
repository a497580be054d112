package advisories

import "testing"

// Every combination of what an owner can know, against the rules said one by one.
func TestAVerdictIsReachedFromWhatIsKnownInEveryCase(t *testing.T) {
	const sequence = 7
	reached := map[Verdict]int{}
	bit := []bool{false, true}
	for _, known := range bit {
		for _, decided := range bit {
			for _, inHand := range bit {
				for _, leaving := range bit {
					for _, stands := range []uint64{0, sequence - 1, sequence, sequence + 1} {
						for attempts := range 5 {
							s := Standing{Known: known, Sequence: stands, Attempts: attempts, Allowed: 3, Decided: decided, InHand: inHand, Leaving: leaving}
							var want []Verdict
							here := known && stands == sequence && !leaving
							if !here {
								want = append(want, Nothing) // it is about something that is not there any more
							}
							if here && inHand {
								want = append(want, MarkDead) // an attempt is never cut off by an advisory
							}
							if here && !inHand && (decided || attempts >= 3) {
								want = append(want, Park) // only what the records call exhausted or decided
							}
							if here && !inHand && !decided && attempts < 3 {
								want = append(want, GiveBack) // deliveries are no attempts
							}
							if len(want) != 1 {
								t.Fatalf("%+v: got the rules %q, want exactly one", s, want)
							}
							if got := Judge(sequence, s); got != want[0] {
								t.Errorf("%+v: got %s, want %s", s, got, want[0])
							}
							reached[want[0]]++
						}
					}
				}
			}
		}
	}
	if len(reached) != 4 {
		t.Errorf("got the verdicts %v, want all four", reached)
	}
}
