package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/siding-dev/siding/runtime/client"
)

// fakeOperations are what an operator asks of a node as a whole. A node whose account does not hold refuses a backup.
func fakeOperations(mux *http.ServeMux, holds bool, answer func(http.ResponseWriter, int, any), refuse func(http.ResponseWriter, *client.Problem)) {
	mux.HandleFunc("GET /api/v1/backup", func(w http.ResponseWriter, _ *http.Request) {
		if !holds {
			refuse(w, client.NewProblem(client.Refused, "backup: a copy needs 10 bytes beside the store").WithHint("make room"))
			return
		}
		_, _ = io.WriteString(w, "a backup\n")
	})
	mux.HandleFunc("POST /api/v1/functions/{name}/forget", func(w http.ResponseWriter, r *http.Request) {
		var f client.ForgetRequest
		_ = json.NewDecoder(r.Body).Decode(&f)
		switch {
		case r.PathValue("name") == "file-claim":
			refuse(w, client.NewProblem(client.Refused, "function file-claim is hosted").WithHint("start the node without it first"))
		case r.PathValue("name") != "old" || f.By == "" || !f.DryRun && f.Reason == "":
			refuse(w, client.NewProblem(client.NotFound, "function "+r.PathValue("name")+": not found"))
		default:
			answer(w, 200, client.Forgotten{Function: "old", Parked: 3, Retrying: 2, Held: 1, Applied: !f.DryRun})
		}
	})
	mux.HandleFunc("POST /api/v1/functions/{name}/set-aside", func(w http.ResponseWriter, r *http.Request) {
		var s client.SetAsideRequest
		_ = json.NewDecoder(r.Body).Decode(&s)
		f := fakeFunction()
		switch {
		case r.PathValue("name") != f.Name || s.By == "":
			refuse(w, client.NewProblem(client.NotFound, "function "+r.PathValue("name")+": not found"))
		case s.End && s.Where != "size>9":
			refuse(w, client.NewProblem(client.Conflict, "function file-claim: no rule sets aside where "+s.Where).WithHint("`siding function show file-claim` lists the rules"))
		case s.End:
			answer(w, 200, f)
		default:
			f.SetAside = []client.SetAsideRule{{Where: s.Where, By: s.By, Reason: s.Reason, At: parkedAt()}}
			answer(w, 200, f)
		}
	})
	mux.HandleFunc("POST /api/v1/functions/{name}/{verb}", func(w http.ResponseWriter, r *http.Request) {
		var s client.SuspendRequest
		_ = json.NewDecoder(r.Body).Decode(&s)
		f := fakeFunction()
		switch verb := r.PathValue("verb"); {
		case r.PathValue("name") == "away":
			f.Name, f.State, f.Suspension = "away", "suspended", fakeSuspension(s)
			answer(w, 200, f)
		case r.PathValue("name") != f.Name || s.By == "":
			refuse(w, client.NewProblem(client.NotFound, "function "+r.PathValue("name")+": not found"))
		case verb == "suspend" && s.Reason != "":
			f.State, f.Suspension = "suspended", fakeSuspension(s)
			answer(w, 200, f)
		default:
			refuse(w, client.NewProblem(client.Conflict, "function file-claim: it is not suspended").WithHint("siding function show file-claim says what it does"))
		}
	})
	mux.HandleFunc("GET /api/v1/doctor", func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, fakeDoctor(holds)) })
}

// fakeSuspension is one that a person asked for.
func fakeSuspension(s client.SuspendRequest) *client.Suspension {
	return &client.Suspension{
		ID: "file-claim-20260102T030405Z", Phase: "stays", Cause: "person", Since: parkedAt(), SuspendedAt: parkedAt(), By: s.By, Reason: s.Reason,
	}
}

// fakeOutage is a function that is suspended because a resource is away.
func fakeOutage() client.Function {
	f := fakeFunction()
	f.Name, f.State = "away", "suspended"
	f.SetAside = []client.SetAsideRule{{Where: "size>9", By: "anna", Reason: "too large", At: parkedAt()}}
	f.Suspension = &client.Suspension{
		ID: "away-20260102T030405Z", Phase: "open", Cause: "outage", Since: parkedAt(), SuspendedAt: parkedAt(), By: "owner", FailedProbes: 2, NextProbeAt: parkedAt(),
		Evidence: "10 attempts of 10 events, 10 keys and 5 sources failed in a row, none succeeded: contract system: connection refused",
	}
	return f
}

// fakeVerify takes what the fake node sends for a backup, and nothing else.
func fakeVerify(path string) (client.Backup, error) {
	b, err := os.ReadFile(path)
	if err != nil || string(b) != "a backup\n" {
		return client.Backup{}, client.NewProblem(client.Refused, "backup "+path+": cut: its end is missing").WithHint("use another backup")
	}
	return client.Backup{
		TakenAt: parkedAt(), Held: (12 * time.Millisecond).String(), Bytes: 4096, DataFormat: 1,
		Streams:   []client.BackupStream{{Name: "DLQ_file-claim", Messages: 2, LastSequence: 7}, {Name: "EVENTS", Messages: 100, LastSequence: 100}},
		Functions: []string{"file-claim"},
	}, nil
}

func fakeRestore(path, dir string) (client.Backup, error) {
	b, err := fakeVerify(path)
	if err != nil {
		return b, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return b, client.NewProblem(client.Refused, "directory "+dir+": not empty").WithHint("name a directory that is empty or not there")
	}
	return b, nil
}

// fakeDoctor finds a warning, and a failure too where not all is well.
func fakeDoctor(well bool) client.Doctor {
	d := client.Doctor{OK: well, Checks: []client.DoctorCheck{
		{Check: "lock", Status: client.DoctorOK, Detail: "directory d: held by this node, process 7"},
		{Check: "owners", Status: client.DoctorWarn, Detail: "function file-claim: has no owner", Hint: "set Owner"},
	}}
	if !well {
		d.Checks = append(d.Checks, client.DoctorCheck{Check: "store", Status: client.DoctorFail, Detail: "stream EVENTS: full\x1b[2J", Hint: "make room"})
	}
	return d
}

func fakeInspect(dir string) (client.Doctor, error) { return fakeDoctor(dir != "sick"), nil }

// fakeAdopt knows the function old, in a directory that is not held.
func fakeAdopt(_ context.Context, dir string, r client.AdoptRequest) (client.Adopted, error) {
	a := client.Adopted{Function: r.Function, As: r.As, Parked: 2, Held: 1}
	switch {
	case dir == "held":
		return a, client.NewProblem(client.Refused, "directory held: held by process 7").WithHint("stop the node, adopt, and start the program with the new name")
	case dir == "begun" && r.As != "first":
		return a, client.NewProblem(client.Refused, "function old: an adoption to first has begun").WithHint("stop the node and finish it with `siding function adopt old --as first`")
	case r.Function != "old":
		return a, client.NewProblem(client.NotFound, "function "+r.Function+": not found").WithHint("did you mean old?")
	case r.By == "" || !r.DryRun && r.Reason == "":
		return a, client.NewProblem(client.Usage, "the command sent no name or no reason")
	}
	a.Applied = !r.DryRun
	return a, nil
}
