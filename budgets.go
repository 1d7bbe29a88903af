package paceline

import (
	"fmt"
	"time"

	"github.com/paceline-proxy/paceline/policy"
)

// Budgets is what is done about the budgets that a provider tells of: what is
// left of its limits, in the headers of its answers.
type Budgets string

// What may be done about them.
const (
	// HeedBudgets keeps what is told, and has requests wait for it.
	HeedBudgets Budgets = "heed"
	// LogBudgets keeps it and has nobody wait: records say what a request would
	// have waited (Record.Observed).
	LogBudgets Budgets = "log"
	// IgnoreBudgets keeps nothing. Requests are sent, and what is refused waits
	// as the refusal says.
	IgnoreBudgets Budgets = "ignore"
)

func (b Budgets) validate() error {
	switch b {
	case "", HeedBudgets, LogBudgets, IgnoreBudgets:
		return nil
	}
	return fmt.Errorf("budgets is %q: it is %q, %q or %q", b, HeedBudgets, LogBudgets, IgnoreBudgets)
}

// bind says in rules what is done about budgets.
func (b Budgets) bind(r *policy.Rules) {
	r.NoBudgets, r.BudgetLogOnly = b == IgnoreBudgets, b == LogBudgets
}

// noteUnheeded notes how much longer the call would wait now for a budget that
// nobody waits for.
func (c *call) noteUnheeded(p policy.Plan, now time.Time) {
	if c.entry.Budgets != LogBudgets || !c.entry.Mode.enforced() {
		return
	}
	c.observed = nil
	if p.Unheeded.After(now) {
		c.observed = &Observed{Wait: p.Unheeded.Sub(now), Why: p.Why}
	}
}
