package budget_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/budget"
)

func tokens(n int) budget.Charge { return budget.Charge{Tokens: n, Input: n, Output: n} }

// An estimate is put right by the 95th percentile of the last fifty, of the same
// model and kind.
func TestRatios(t *testing.T) {
	var rs budget.Ratios
	if got := rs.Of("m", true, tokens(100)); got != tokens(100) {
		t.Errorf("with nothing known %v", got)
	}
	for i := range 40 {
		rs.Learn(now, "m", true, tokens(1000), tokens(i+1)) // 0.001 to 0.04
	}
	if got := rs.Of("m", true, tokens(1000)); got != tokens(38) {
		t.Errorf("of forty %v, want the 38th", got)
	}
	for range 48 {
		rs.Learn(now, "m", true, tokens(1000), tokens(50))
	}
	for range 2 {
		rs.Learn(now, "m", true, tokens(1000), tokens(900))
	}
	if got := rs.Of("m", true, tokens(2000)); got != tokens(100) {
		t.Errorf("of fifty, two of them large, %v, want 100", got)
	}
	rs.Learn(now, "m", true, tokens(1000), tokens(900))
	if got := rs.Of("m", true, tokens(1000)); got != tokens(900) {
		t.Errorf("with three large ones %v, want 900", got)
	}
	for what, got := range map[string]budget.Charge{"another kind": rs.Of("m", false, tokens(7)), "another model": rs.Of("n", true, tokens(7))} {
		if got != tokens(7) {
			t.Errorf("%s: %v", what, got)
		}
	}
	if got := rs.Largest(); got != tokens(900) {
		t.Errorf("the largest is %v", got)
	}
	// What nothing was estimated of says nothing.
	rs = nil
	rs.Learn(now, "m", false, budget.Charge{Tokens: 100}, budget.Charge{Tokens: 20, Input: 20, Output: 5})
	if got := rs.Of("m", false, tokens(100)); got != (budget.Charge{Tokens: 20, Input: 100, Output: 100}) {
		t.Errorf("of tokens alone %v", got)
	}
	// What was free is free; what is beyond belief is not believed.
	rs.Learn(now, "free", false, tokens(100), tokens(0))
	rs.Learn(now, "dear", false, tokens(1), tokens(1<<50))
	if got := rs.Of("free", false, tokens(100)); got != tokens(0) {
		t.Errorf("free: %v", got)
	}
	if got := rs.Of("dear", false, tokens(1)); got != tokens(10_000) {
		t.Errorf("dear: %v", got)
	}
}

// However many models are named, little is kept, and of the latest.
func TestRatiosAreBounded(t *testing.T) {
	var s budget.State
	for i := range 100 {
		for range 100 {
			s.Ratios.Learn(now.Add(time.Duration(i)*time.Second), fmt.Sprint("model", i), true, tokens(100), tokens(i))
		}
	}
	s.Ratios.Learn(now, strings.Repeat("long", 100), true, tokens(1), tokens(1))
	b, err := budget.Encode(s)
	if err != nil || len(s.Ratios) != 16 || len(b) > 16<<10 {
		t.Errorf("%d kinds in %d bytes, %v", len(s.Ratios), len(b), err)
	}
	if got := s.Ratios.Of("model99", true, tokens(100)); got != tokens(99) {
		t.Errorf("the latest is %v", got)
	}
}

// Of two processes' ratios those learned last stand, kind by kind; what is
// forgotten stays so.
func TestRatiosMerge(t *testing.T) {
	var a, b budget.State
	a.Ratios.Learn(now, "m", true, tokens(100), tokens(10))
	a.Ratios.Learn(now, "only a", true, tokens(100), tokens(30))
	b.Ratios.Learn(now.Add(time.Second), "m", true, tokens(100), tokens(5))
	for _, m := range []budget.State{budget.Merge(a, b), budget.Merge(b, a)} {
		if got := m.Ratios.Of("m", true, tokens(100)); got != tokens(5) {
			t.Errorf("merged: %v", got)
		}
		if got := m.Ratios.Of("only a", true, tokens(100)); got != tokens(30) {
			t.Errorf("merged: %v", got)
		}
		if got := m.Ratios.Largest(); got != tokens(30) {
			t.Errorf("the largest is %v", got)
		}
	}
	b.Orders.Forget = now
	if m := budget.Merge(a, b); len(m.Ratios) != 1 {
		t.Errorf("after an order to forget: %+v", m.Ratios)
	}
}

// A store may hold anything.
func TestHostileRatios(t *testing.T) {
	long := "[" + strings.Repeat("1,", 999) + "1]"
	var many []string
	for i := range 200 {
		many = append(many, fmt.Sprintf(`{"model":"m%d","tokens":[1]}`, i))
	}
	for _, raw := range []string{
		`[{"model":"m","tokens":[-5,2147483647],"largest":{"tokens":-3,"input":9223372036854775807},"changed":"2100-01-01T00:00:00Z"}]`,
		`[{"model":"m","tokens":` + long + `},{"model":"m","tokens":[1]}]`,
		`[{"model":"` + strings.Repeat("m", 1000) + `"}]`,
		"[" + strings.Join(many, ",") + "]",
	} {
		s, err := budget.Decode([]byte(`{"ratios":`+raw+`}`), now)
		if err != nil {
			t.Errorf("%.80s: %v", raw, err)
			continue
		}
		if len(s.Ratios) > 16 {
			t.Errorf("%.80s: %d kinds", raw, len(s.Ratios))
		}
		for _, r := range s.Ratios {
			if len(r.Tokens) > 50 || r.Changed.After(now) || r.Largest.Tokens < 0 || r.Largest.Input > 1<<40 || len(r.Model) > 128 {
				t.Errorf("%.80s: %+v", raw, r)
			}
			if got := s.Ratios.Of(r.Model, r.Later, tokens(100)); got.Tokens < 0 || got.Tokens > 1<<40 {
				t.Errorf("%.80s: %v", raw, got)
			}
		}
	}
}

// FuzzRatios feeds a store's bytes: what comes of them is bounded, and goes back.
func FuzzRatios(f *testing.F) {
	f.Add([]byte(`{"ratios":[{"model":"m","later":true,"tokens":[500,501],"largest":{"tokens":5},"changed":"2026-11-29T12:00:00Z"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := budget.Decode(b, now)
		if err != nil {
			return
		}
		s.Ratios.Learn(now, "m", true, tokens(100), tokens(50))
		if got := s.Ratios.Of("m", true, tokens(1<<30)); got.Tokens < 0 || got.Tokens > 1<<40 {
			t.Errorf("%v", got)
		}
		out, err := budget.Encode(budget.Merge(s, s))
		if err != nil || !json.Valid(out) || len(s.Ratios) > 16 {
			t.Errorf("%v: %d kinds", err, len(s.Ratios))
		}
	})
}
