package demo

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestTheBookFindsWhatIsWrong(t *testing.T) {
	accepted := map[string]uint64{"a": 1, "b": 2, "c": 3}
	one, two := "POL-1", "POL-2"
	for name, c := range map[string]struct {
		book map[string][]string
		want string // of the error; "" for none
	}{
		"all in order":    {map[string][]string{one: {"a", "c"}, two: {"b"}}, ""},
		"lost":            {map[string][]string{one: {"a", "c"}}, "b is accounted for, but the contract system has it 0 times"},
		"twice":           {map[string][]string{one: {"a", "a", "c"}, two: {"b"}}, "a is accounted for, but the contract system has it 2 times"},
		"out of order":    {map[string][]string{one: {"c", "a"}, two: {"b"}}, "policy POL-1 was not handled in order: its sequences are [3 1]"},
		"what nobody had": {map[string][]string{one: {"a", "c"}, two: {"b"}, "POL-3": {"d"}}, "d was filed although nobody asked for it"},
	} {
		s := newContracts()
		for policy, ids := range c.book {
			for _, id := range ids {
				s.book[policy] = append(s.book[policy], filed{id: id})
			}
		}
		several, err := s.check(accepted)
		if c.want == "" {
			if err != nil || several != 1 {
				t.Errorf("%s: got %d policies with several events and %v, want 1 and no error", name, several, err)
			}
			continue
		}
		if err == nil || !strings.HasPrefix(err.Error(), c.want+": hint: ") {
			t.Errorf("%s: got %v, want %q and a hint", name, err, c.want)
		}
	}
}

func TestTheContractSystemRefusesWhatItMust(t *testing.T) {
	c := newContracts()
	claim := paper{Policy: "POL-1", Damage: "hail", DateOfLoss: "2026-02-01"}
	if err := c.file("invoice", paper{Policy: "POL-1", Cents: 1}); !errors.Is(err, errNoClaim) {
		t.Errorf("an invoice before its claim: got %v, want %v", err, errNoClaim)
	}
	if err := c.file("claim", claim); err != nil {
		t.Errorf("a claim: got %v, want none", err)
	}
	var twice *twiceError
	if err := c.file("again", claim); !errors.As(err, &twice) || twice.id != "claim" {
		t.Errorf("the same claim: got %v, want it to name the first one", err)
	}
	c.calls = callsBeforeAway - 1
	if err := c.file("invoice", paper{Policy: "POL-1", Cents: 1}); !errors.Is(err, errAway) {
		t.Errorf("while it is away: got %v, want %v", err, errAway)
	}
	c.back = time.Now()
	if err := c.file("invoice", paper{Policy: "POL-1", Cents: 1}); err != nil {
		t.Errorf("when it is back: got %v, want none", err)
	}
}

func TestThePortalSendsWhatTheStoryNeeds(t *testing.T) {
	p := newPortal()
	if got := p.count(reported); got != 400 {
		t.Errorf("got %d reports, want 400", got)
	}
	if len(p.dates) != 37 || len(p.blocked) != 38 || p.behind == 0 {
		t.Errorf("got %d reports without a date, %d blocked policies and %d events behind them, want 37, 38 and some", len(p.dates), len(p.blocked), p.behind)
	}
	ids := map[string]bool{}
	for _, e := range p.events {
		if err := e.Validate(); err != nil || ids[e.ID()] {
			t.Errorf("%s: got %v, and another one of that id: %t", e.ID(), err, ids[e.ID()])
		}
		ids[e.ID()] = true
	}
}
