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
