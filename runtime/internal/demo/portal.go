package demo

import (
	"fmt"

	"github.com/cloudevents/sdk-go/v2/event"
)

// The types of the portal's events.
const (
	reported = "com.insurer.claim.reported"
	invoiced = "com.insurer.claim.invoiced"
)

// What the portal sends. Cedar's program was updated before report
// firstUndated, and repaired before report lastUndated+4.
const (
	reports                    = 400
	firstUndated, lastUndated  = 150, 294
	original, reportedTwice    = 203, 399
	invoicesFrom, invoicesUpTo = 150, 297
)

// paper is the data of both types of event.
type paper struct {
	Policy     string `json:"policy"`
	Damage     string `json:"damage,omitempty"`
	DateOfLoss string `json:"date_of_loss,omitempty"`
	Cents      int    `json:"invoice_cents,omitempty"`
}

// portal is what the brokers send, and what one of them knows but did not send.
type portal struct {
	events []event.Event // in the order in which they are sent
	// dates are those that the broker finds in its files, by the event's id.
	dates map[string]string
	// blocked are the policies with a report that cannot be handled.
	blocked map[string]bool
	// behind counts the events that must wait for one of these.
	behind int
}

func newPortal() *portal {
	p := &portal{dates: map[string]string{}, blocked: map[string]bool{}}
	brokers := []string{"/brokers/alder", "/brokers/birch", "/brokers/cedar", "/brokers/dogwood"}
	damages := []string{"hail", "water", "fire"}
	for n := 1; n <= reports; n++ {
		id, about := fmt.Sprintf("claim-%03d", n), n
		if n == reportedTwice {
			about = original
		}
		date := fmt.Sprintf("2026-02-%02d", about%28+1)
		report := paper{Policy: policy(about), Damage: damages[about%3], DateOfLoss: date}
		if n%4 == 2 && n >= firstUndated && n <= lastUndated {
			report.DateOfLoss, p.dates[id] = "", date
		}
		if report.DateOfLoss == "" || n == reportedTwice {
			p.blocked[report.Policy] = true
		}
		p.add(id, reported, brokers[n%4], report)
	}
	for n := invoicesFrom; n <= invoicesUpTo; n++ {
		if n%2 == 0 || n == original {
			p.add(fmt.Sprintf("invoice-%03d", n), invoiced, "/garages", paper{Policy: policy(n), Cents: 100 * n})
		}
		if n%12 == 6 {
			p.add(fmt.Sprintf("invoice-%03d-b", n), invoiced, "/garages", paper{Policy: policy(n), Cents: 10 * n})
		}
	}
	return p
}

func policy(n int) string { return fmt.Sprintf("POL-%d", 1000+n) }

func (p *portal) add(id, kind, source string, data paper) {
	e := event.New()
	e.SetID(id)
	e.SetType(kind)
	e.SetSource(source)
	e.SetExtension("partitionkey", data.Policy)
	_ = e.SetData("application/json", data) // a paper can always be written as JSON
	p.events = append(p.events, e)
	if kind == invoiced && p.blocked[data.Policy] {
		p.behind++
	}
}

// count tells how many events of a type there are.
func (p *portal) count(kind string) int {
	n := 0
	for _, e := range p.events {
		if e.Type() == kind {
			n++
		}
	}
	return n
}
