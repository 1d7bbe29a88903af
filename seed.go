package paceline

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"time"

	"github.com/paceline-proxy/paceline/budget"
	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/policy"
)

// Seed rebuilds what a limiter that lost its journal no longer knows, from the
// records of the longest declared window before now: how full its windows are,
// this process's starts, and the waits that providers stated. A record counts
// when it was sent, in older logs when it ended; what was not sent counts
// nowhere.
//
// It is called before the first request. Records of credentials that nobody
// knows any more are passed over.
func (t *Transport) Seed(records iter.Seq[Record]) error {
	return t.sow(records, (*home).plant)
}

// Recall takes from records what a predecessor of this process has started, so
// that the evidence of the next refusals counts it. It is for where the limiter
// has kept its windows, and like Seed is called before the first request.
func (t *Transport) Recall(records iter.Seq[Record]) error {
	return t.sow(records, func(h *home, s *seed, now time.Time) error {
		h.remember(s, now)
		return nil
	})
}

// sow gathers records by caller key and hands each key's to plant.
func (t *Transport) sow(records iter.Seq[Record], plant func(*home, *seed, time.Time) error) error {
	t.once.Do(t.init)
	es := t.entries.Load()
	if es == nil {
		return t.err
	}
	now := time.Now()
	s := seeding{home: t.home, entries: es, seeds: make(map[callerKey]*seed), ids: make(map[namedID]string)}
	for r := range records {
		s.add(&r, now)
	}
	for _, seed := range s.seeds {
		if err := plant(t.home, seed, now); err != nil {
			return fmt.Errorf("paceline: seeding from the log: %w", err)
		}
	}
	if s.strangers > 0 {
		t.warn("records were not counted", fmt.Errorf("%d are of credentials that are not known any more", s.strangers))
	}
	return nil
}

// A seeding is a log on its way into the limiter.
type seeding struct {
	home      *home
	entries   *entries
	seeds     map[callerKey]*seed
	ids       map[namedID]string // of credentials, by what records call them
	strangers int
}

// A seed is what the records of one caller key come to.
type seed struct {
	key   callerKey
	entry *entry             // nil where the starts count nowhere
	sent  map[string][]start // by model, where models have limits of their own
	// The stated wait that ends last: until when, said when, and what for.
	until, said time.Time
	reason      budget.Reason
}

// A start is when a request was sent, and what its answer said it cost.
type start struct {
	at      time.Time
	cost    budget.Charge
	unknown bool // its answer did not say
}

func (s start) compare(o start) int { return s.at.Compare(o.at) }

// add takes in one record.
func (s *seeding) add(r *Record, now time.Time) {
	if r.NotSent || r.Cache {
		return
	}
	at, e := r.at(), s.entries.find(r.Provider)
	reason, until := r.pause()
	paused := until.After(now)
	if !paused && (e == nil || now.Sub(at) > 2*e.longest) {
		return // nothing is so long, with its slack
	}
	key, ok := s.callerOf(e, r)
	if !ok {
		s.strangers++
		return
	}
	one := s.seeds[key]
	if one == nil {
		one = &seed{key: key, sent: make(map[string][]start)}
		if key.scope != scopeOther {
			one.entry = e
		}
		s.seeds[key] = one
	}
	if one.entry != nil {
		model := ""
		if len(e.models) > 0 {
			model = r.Model
		}
		one.sent[model] = append(one.sent[model], start{at, r.cost(), r.OK() && r.cost() == budget.Charge{}})
	}
	if until.After(one.until) {
		one.until, one.said, one.reason = until, r.Done, reason
	}
}

// cost is what the answer said that it cost. What of it the provider has charged
// a record does not say.
func (r *Record) cost() budget.Charge {
	return budget.Charge{Tokens: r.InTokens + r.OutTokens, Input: r.InTokens, Output: r.OutTokens}
}

// pause is the end of a wait that the provider stated in the answer, zero where
// it stated none, and its reason.
func (r *Record) pause() (budget.Reason, time.Time) {
	reason, ok := policy.ReasonOf(r.Class)
	if !ok || !r.Told || r.Wait <= 0 || r.Wait > dialect.MaxWait || r.Status == http.StatusRequestEntityTooLarge {
		return "", time.Time{}
	}
	return reason, r.Done.Add(r.Wait)
}

// callerOf is the caller key of a record under the entry of today, false where
// its credential is not known any more.
func (s *seeding) callerOf(e *entry, r *Record) (callerKey, bool) {
	if e == nil {
		e = &entry{Provider: Provider{Name: r.Provider, Account: r.Account}}
		if r.Scope != "" {
			e.Scope = ScopeModel
		}
	}
	account := e.Account
	if key, err := e.credential(r.Credential); err == nil && key != nil {
		account = orElse(key.Account, account)
	}
	if account == "" {
		name := namedID{e.Name, r.Credential}
		id, ok := s.ids[name]
		if !ok {
			if id, ok = s.home.idOf(e, r.Credential); !ok {
				return callerKey{}, false
			}
			s.ids[name] = id
		}
		account = s.home.lineOf(e.Name, id)
	}
	k := callerOf(e, account, "", r.Model)
	if r.Scope == scopeOther {
		k.scope = scopeOther
	}
	return k, true
}

// remember counts what one caller key has sent as started here.
func (h *home) remember(s *seed, now time.Time) {
	var sent []start
	for _, of := range s.sent {
		sent = append(sent, of...)
	}
	slices.SortFunc(sent, start.compare)
	h.book.Caller(s.key.String(), now).Use(now, func(_ *budget.State, starts *budget.Starts) bool {
		for _, one := range sent {
			starts.Add(one.at, s.entry.Longest(), one.cost)
		}
		return false
	})
}

// plant counts what one caller key has sent, and closes it for what it was told
// to wait.
func (h *home) plant(s *seed, now time.Time) error {
	h.remember(s, now)
	ctx, name := context.Background(), s.key.String()
	limits := make(map[string][]limiter.Limit, len(s.sent))
	var paused time.Time
	var largest budget.Charge
	orders := h.orders(operatorKey(s.key.provider), now)
	h.book.Caller(name, now).Use(now, func(state *budget.State, _ *budget.Starts) (changed bool) {
		changed, _ = state.Obey(&orders, now)
		if s.until.After(now) && s.said.After(state.Orders.Open) {
			changed = state.Close(s.said, s.until, s.reason, budget.Told) || changed
			paused = s.until
		}
		for model := range s.sent {
			limits[model] = rulesOf(s.entry, s.key, model).Plan(state, nil, now, policy.Activity{}).Limits
		}
		largest = state.Ratios.Largest()
		return changed
	})
	if !paused.IsZero() {
		if err := h.gate.Throttle(ctx, name, paused); err != nil {
			return err
		}
	}
	for model, sent := range s.sent {
		rules := rulesOf(s.entry, s.key, model)
		costs := func(one start) []limiter.Cost {
			switch c := one.cost; {
			case largest == budget.Charge{}:
				return rules.Costs(c)
			case one.unknown:
				return rules.Costs(largest)
			default: // what is cached may be free
				return rules.Costs(budget.Charge{Tokens: min(c.Tokens, largest.Tokens), Input: min(c.Input, largest.Input), Output: min(c.Output, largest.Output)})
			}
		}
		if err := h.count(ctx, limits[model], sent, costs, now); err != nil {
			return err
		}
	}
	return nil
}

// count has the limiter count starts that its windows may still hold, with what
// they cost.
func (h *home) count(ctx context.Context, limits []limiter.Limit, sent []start, costs func(start) []limiter.Cost, now time.Time) error {
	longest := time.Duration(0)
	for _, l := range limits {
		longest = max(longest, l.Per)
	}
	slices.SortFunc(sent, start.compare)
	for _, one := range sent {
		if now.Sub(one.at) < longest {
			if err := h.gate.Seed(ctx, costing(limits, costs(one)), one.at); err != nil {
				return err
			}
		}
	}
	return nil
}

// costing is limits with other costs in the buckets of tokens, without those in
// which nothing is counted.
func costing(limits []limiter.Limit, costs []limiter.Cost) []limiter.Limit {
	if len(costs) == 0 {
		return limits
	}
	out := make([]limiter.Limit, 0, len(limits))
	for _, l := range limits {
		if i := slices.IndexFunc(costs, func(c limiter.Cost) bool { return c.Key == l.Key }); i >= 0 {
			if l.Cost = costs[i].Cost; l.Cost == 0 {
				continue
			}
		}
		out = append(out, l)
	}
	return out
}

// rulesOf are the rules of the requests of a caller key that ask for a model.
func rulesOf(e *entry, as callerKey, model string) policy.Rules {
	r := policy.Rules{Limits: e.Limits, Retry: e.Retry, Bucket: buckets(as.String())}
	e.Budgets.bind(&r)
	if as.scope == scopeOther {
		r.Limits = Limits{Adaptive: Adaptive{Off: true}}
	} else {
		e.own(&r, as, model)
	}
	return r
}
