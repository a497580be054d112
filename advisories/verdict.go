package advisories

// Verdict is what is to be done about an event in RETRY of which JetStream says that it will not deliver it again.
type Verdict string

// The verdicts. Judge reaches one from what is known, never from the advisory alone: advisories get lost, doubled and delayed.
const (
	Park     Verdict = "park"      // the records call it exhausted
	GiveBack Verdict = "give_back" // deliveries were used up without attempts: write it anew, so that counting starts again
	MarkDead Verdict = "mark_dead" // it is being attempted: if that fails, nobody will deliver it again
	Nothing  Verdict = "nothing"   // moved, replaced or settled since
)

// Standing is what the owner knows about the event that an advisory names.
type Standing struct {
	Known    bool   // it stands in RETRY, as far as the owner knows
	Sequence uint64 // of its copy in RETRY
	Attempts int    // made in this cycle, by the records
	Allowed  int
	Decided  bool // an attempt decided to park it whatever is left
	InHand   bool // queued for a worker or running
	Leaving  bool // a move away from RETRY is under way
}

// Judge decides about the copy with a sequence in RETRY.
func Judge(sequence uint64, s Standing) Verdict {
	switch {
	case !s.Known || s.Sequence != sequence || s.Leaving:
		return Nothing
	case s.InHand:
		return MarkDead
	case s.Decided || s.Attempts >= s.Allowed:
		return Park
	default:
		return GiveBack
	}
}
