package client

// Setting is one value of a node's configuration, as siding config show prints
// it. Nothing in it is secret.
type Setting struct {
	// Key is its name in the configuration file, as in http or
	// functions.file-claim.retry.attempts.
	Key   string `json:"key"`
	Value string `json:"value"`
	// Origin says who had the last word: default, code, file, env or flag.
	Origin string `json:"origin"`
	// Where is file:line, the variable or the flag; empty for a default and for
	// what code says.
	Where string `json:"where"`
}

// ConfigCheck is what siding config check prints.
type ConfigCheck struct {
	File     string          `json:"file"`
	Valid    bool            `json:"valid"`
	Problems []ConfigProblem `json:"problems"`
	// Functions are those that a node would host with this file; none where it is not valid.
	Functions []ConfigPatience `json:"functions"`
}

// ConfigPatience is what a function's retry policy means in time. Times are as Go writes a duration.
type ConfigPatience struct {
	Function string `json:"function"`
	Attempts int    `json:"attempts"`
	// RidesOut is at least how long an outage may last without an event being parked for it.
	RidesOut string `json:"rides_out"`
	// LongestUntilParked is at most how long it takes until an event that always fails is parked.
	LongestUntilParked string `json:"longest_until_parked"`
	// LongestBlocked is at most how long such an event blocks its ordering key; empty where that lasts until a person decides.
	LongestBlocked string   `json:"longest_blocked"`
	Warnings       []string `json:"warnings"`
	Notes          []string `json:"notes"`
}

// ConfigProblem is one thing that is wrong with a configuration. Line and
// Column count from 1; they are 0 for what is wrong with the file as a whole.
type ConfigProblem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Path    string `json:"path"` // the key, as in functions.file-claim.timeout
	Problem string `json:"problem"`
	Hint    string `json:"hint"`
}
