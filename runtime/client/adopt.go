package client

// AdoptRequest gives what a node keeps of a function to its new name.
type AdoptRequest struct {
	Function string `json:"function"`
	As       string `json:"as"`
	Reason   string `json:"reason"`
	By       string `json:"by"`
	// DryRun only counts.
	DryRun bool `json:"dry_run,omitempty"`
}

// Adopted is how much stood of the function. Applied says that it stands under
// the new name now.
type Adopted struct {
	Function  string `json:"function"`
	As        string `json:"as"`
	Parked    int    `json:"parked"`
	Retrying  int    `json:"retrying"`
	Held      int    `json:"held"`
	Decisions int    `json:"decisions"`
	Applied   bool   `json:"applied"`
}
