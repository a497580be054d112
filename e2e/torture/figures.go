package torture

// Figures are what a log came to, for those who want to know how hard it was.
type Figures struct {
	Interrupted map[int]int               // attempts that a kill ended, by process
	Outcomes    map[string]map[string]int // attempts that ended, by function and outcome
	Twice       map[string]int            // deliveries beyond the first of an event, by function
	Decisions   map[string]map[string]int // by action and what it was answered
}

// Measure counts them. A discard with tail counts as an action of its own.
func Measure(lines []Line) Figures {
	f := Figures{map[int]int{}, map[string]map[string]int{}, map[string]int{}, map[string]map[string]int{}}
	delivered := map[[2]string]bool{}
	running := map[int]int{}
	asked := map[int]string{}
	for _, l := range lines {
		switch l.What {
		case Begin:
			running[l.PID]++
		case Finish:
			running[l.PID]--
			add(f.Outcomes, l.Function, l.Outcome)
			if l.Outcome != Done {
				continue
			}
			if at := [2]string{l.Function, l.ID}; delivered[at] {
				f.Twice[l.Function]++
			} else {
				delivered[at] = true
			}
		case Killed:
			f.Interrupted[l.PID] = running[l.PID]
		case Asked:
			if asked[l.Decision] = l.Action; l.Tail {
				asked[l.Decision] += " with tail"
			}
		case Answered:
			add(f.Decisions, asked[l.Decision], l.Outcome)
		}
	}
	return f
}

func add(counts map[string]map[string]int, a, b string) {
	if counts[a] == nil {
		counts[a] = map[string]int{}
	}
	counts[a][b]++
}
