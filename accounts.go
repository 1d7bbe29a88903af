package paceline

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/paceline-proxy/paceline/budget"
)

// accounts are whom providers have said that they meter: of each credential the
// one among those of its account that was told of first, in whose line all of
// them stand. What is told is stored, and counts from the next start on: a line
// does not change under those who wait in it. The account itself is known by a
// hash alone.
type accounts struct {
	mu    sync.Mutex
	lines map[string]map[string]string // by provider, as it was at the start: id to id
	told  map[namedID]string           // the account that is stored
}

// A membership says of which account credentials are, in the order in which that
// was told.
type membership struct {
	IDs      []string `json:"ids"`
	Accounts []string `json:"accounts"` // of each of the IDs
}

// accountsKey is where a store keeps a provider's. It has one slash, a caller
// key two.
func accountsKey(provider string) string { return url.PathEscape(provider) + "/~accounts" }

func readMembership(b []byte) (m membership) {
	if json.Unmarshal(b, &m) != nil || len(m.IDs) != len(m.Accounts) || len(m.IDs) > maxNames {
		return membership{}
	}
	return m
}

// lines are who stands in whose line.
func (m membership) lines() map[string]string {
	lines := make(map[string]string)
	for i, id := range m.IDs {
		if first := m.IDs[slices.Index(m.Accounts, m.Accounts[i])]; first != id {
			lines[id] = first
		}
	}
	return lines
}

// lineOf is the credential in whose line one of a provider stands: its own,
// unless an earlier one was told to be of the same account.
func (h *home) lineOf(provider, id string) string {
	a := &h.accounts
	a.mu.Lock()
	defer a.mu.Unlock()
	lines, read := a.lines[provider]
	if !read {
		if s := h.book.Store; s != nil {
			ctx, cancel := context.WithTimeout(context.Background(), storePatience)
			defer cancel()
			if b, err := s.Get(ctx, accountsKey(provider)); err == nil {
				lines = readMembership(b).lines()
			}
		}
		if a.lines == nil {
			a.lines = make(map[string]map[string]string)
		}
		a.lines[provider] = lines
	}
	return orElse(lines[id], id)
}

// tellAccount stores whom a provider says that it meters for a credential.
func (h *home) tellAccount(provider, id, account string) error {
	if account = hashed(account); account == "" || id == "" || h.book.Store == nil {
		return nil
	}
	h.lineOf(provider, id) // what is stored from now on is for the next start
	a, key := &h.accounts, namedID{provider, id}
	a.mu.Lock()
	known := a.told[key] == account
	if !known {
		if a.told == nil || len(a.told) >= maxNames {
			a.told = make(map[namedID]string)
		}
		a.told[key] = account
	}
	a.mu.Unlock()
	if known {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), storePatience)
	defer cancel()
	err := h.book.Store.Update(ctx, accountsKey(provider), func(old []byte) []byte {
		m := readMembership(old)
		if i := slices.Index(m.IDs, id); i >= 0 {
			if m.Accounts[i] == account {
				return old
			}
			m.IDs, m.Accounts = slices.Delete(m.IDs, i, i+1), slices.Delete(m.Accounts, i, i+1)
		}
		if len(m.IDs) >= maxNames {
			m.IDs, m.Accounts = m.IDs[1:], m.Accounts[1:]
		}
		m.IDs, m.Accounts = append(m.IDs, id), append(m.Accounts, account)
		b, err := json.Marshal(m)
		if err != nil {
			return old // strings always marshal
		}
		return b
	})
	if err != nil {
		return fmt.Errorf("keeping the accounts of credentials: %w", err)
	}
	return nil
}

// join closes the line of a call for what its credential was told while it had
// a line of its own.
func (c *call) join(id string) {
	if c.as.account == id || c.account != "" {
		return
	}
	own, now := c.as, time.Now()
	own.account = id
	var p budget.Pause
	c.home.book.Caller(own.String(), now).Look(now, func(s *budget.State, _ *budget.Starts) { p = s.Pause })
	if p.Active(now) && p.Source != budget.Operator {
		c.caller.Use(now, func(s *budget.State, _ *budget.Starts) bool {
			return p.Made.After(s.Orders.Open) && s.Close(now, p.Until, p.Reason, p.Source)
		})
	}
}

// sharing names the credentials that stand in the line of one, by the names that
// people may see.
func (h *home) sharing(e *entry, line string) string {
	var all []string
	for i := range e.keys {
		if k := &e.keys[i]; k.id == line || e.accountOf(k) == "" && h.lineOf(e.Name, k.id) == line {
			all = append(all, k.Name)
		}
	}
	if len(all) == 0 {
		return h.names.of(e.Name, line)
	}
	return strings.Join(all, "+")
}
