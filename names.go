package paceline

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/paceline-proxy/paceline/budget"
)

// names are what people may call credentials, which are known by an id that
// is nobody's business: openai#1. With a store a name stays the same for all
// processes and restarts.
type names struct {
	mu    sync.Mutex
	names map[namedID]string
	given map[string]int // the latest number of a provider, as far as is known here
}

type namedID struct{ provider, id string }

// maxNames is how many names are kept, here and in a store. Beyond it the
// oldest are forgotten; the numbers go on.
const maxNames = 1 << 14

// credentialName is what a log may call a credential of a provider.
func (h *home) credentialName(provider, id string) string {
	n := &h.names
	if name := n.of(provider, id); name != "" {
		return name
	}
	number, err := numberOf(h.book.Store, provider, id)
	if err != nil && h.book.Fault != nil {
		h.book.Fault(err)
	}
	key := namedID{provider, id}
	n.mu.Lock()
	defer n.mu.Unlock()
	if name := n.names[key]; name != "" {
		return name
	}
	if n.given == nil {
		n.given = make(map[string]int)
	}
	if len(n.names) >= maxNames || n.names == nil {
		n.names = make(map[namedID]string)
	}
	if number == 0 {
		number = n.given[provider] + 1
	}
	n.given[provider] = max(n.given[provider], number)
	name := fmt.Sprintf("%s#%d", provider, number)
	n.names[key] = name
	return name
}

// of is the name of a credential that was given one, empty for none.
func (n *names) of(provider, id string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.names[namedID{provider, id}]
}

// A register is what a store keeps of a provider's credentials: their ids in
// the order of their numbers.
type register struct {
	First int      `json:"first"` // the number of the first
	IDs   []string `json:"ids"`
}

// registerKey is where a store keeps it. It has one slash, a caller key two.
func registerKey(provider string) string { return url.PathEscape(provider) + "/~credentials" }

func readRegister(b []byte) (r register) {
	if json.Unmarshal(b, &r) != nil || r.First < 1 {
		return register{First: 1, IDs: r.IDs[:0:0]}
	}
	return r
}

// storePatience is how long a store is waited for.
const storePatience = 250 * time.Millisecond

// numberOf is the number of a credential in the store, a new one where it has
// none yet; 0 without a store, or where it fails.
func numberOf(s budget.Store, provider, id string) (number int, err error) {
	if s == nil {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), storePatience)
	defer cancel()
	err = s.Update(ctx, registerKey(provider), func(old []byte) []byte {
		r := readRegister(old)
		i := slices.Index(r.IDs, id)
		if i >= 0 {
			number = r.First + i
			return old
		}
		if len(r.IDs) >= maxNames {
			r.First, r.IDs = r.First+1, r.IDs[1:]
		}
		r.IDs = append(r.IDs, id)
		number = r.First + len(r.IDs) - 1
		b, err := json.Marshal(r)
		if err != nil {
			return old // strings and numbers always marshal
		}
		return b
	})
	if err != nil {
		return 0, fmt.Errorf("keeping the names of credentials: %w", err)
	}
	return number, nil
}

// idOf is the id of a credential that a record calls by name, false where
// nobody knows it any more.
func (h *home) idOf(e *entry, name string) (id string, ok bool) {
	for i := range e.keys {
		if e.keys[i].Name == name {
			return e.keys[i].id, true
		}
	}
	at := strings.LastIndexByte(name, '#')
	number, err := strconv.Atoi(name[at+1:])
	if at < 0 || err != nil || name[:at] != e.Name || h.book.Store == nil {
		return "", false
	}
	ctx, cancel := context.WithTimeout(context.Background(), storePatience)
	defer cancel()
	b, err := h.book.Store.Get(ctx, registerKey(e.Name))
	if err != nil {
		return "", false
	}
	r := readRegister(b)
	if i := number - r.First; i >= 0 && i < len(r.IDs) {
		return r.IDs[i], true
	}
	return "", false
}
