package paceline

import (
	"log/slog"
	"maps"
	"reflect"
	"runtime"
	"sync"
	"time"
	"weak"

	"github.com/paceline-proxy/paceline/budget"
	"github.com/paceline-proxy/paceline/gate"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/memory"
)

// A home is what all Transports over one limiter and store share: the lines,
// what the caller keys have learned, and the refusals that made their pauses.
type home struct {
	gate   *gate.Gate
	book   budget.Book
	shadow shadow

	names    names
	accounts accounts

	coming coming

	mu   sync.Mutex
	held map[string]*refusal // by caller key
	left map[string]int      // places held for clients that left, by caller key
}

// reread is how often what other processes know is looked at by who waits.
func (h *home) reread() time.Duration {
	if h.book.Store == nil {
		return 0
	}
	return 100 * time.Millisecond
}

// heldBy counts the places of a caller key that are held for clients that
// left.
func (h *home) heldBy(key string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.left[key]
}

// holdPlaces counts n more of them.
func (h *home) holdPlaces(key string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.left == nil {
		h.left = make(map[string]int)
	}
	if h.left[key] += n; h.left[key] == 0 {
		delete(h.left, key)
	}
}

// maxHeld is how many refusals are held at most.
const maxHeld = 1 << 10

// hold keeps the refusal that made a pause for those who meet the pause, if it
// is whole and small. Where too many are held, those of pauses that are over
// go, or all of them: whoever misses one gets a refusal of ours.
func (h *home) hold(key string, r *refusal, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.held, key) // it was of an earlier pause
	if r == nil || len(r.body) > maxHeldBody {
		return
	}
	if len(h.held) >= maxHeld {
		now := time.Now()
		maps.DeleteFunc(h.held, func(_ string, r *refusal) bool { return !r.until.After(now) })
	}
	if len(h.held) >= maxHeld || h.held == nil {
		h.held = make(map[string]*refusal)
	}
	r.until = until
	h.held[key] = r
}

// holding returns the refusal that made the pause which runs at now, nil where
// none is held.
func (h *home) holding(key string, now time.Time) *refusal {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.held[key]; r != nil && r.until.After(now) {
		return r
	}
	return nil
}

// The homes and gates in use in this process. There is one gate per limiter,
// so a second store over a limiter gets the gate of the first.
var shared struct {
	sync.Mutex
	homes registry[homeKey, home]
	gates registry[limiter.Limiter, gate.Gate]
	// memory is the limiter of Transports that name none, with its gate, and
	// home that of Transports that name no store either.
	memory *memory.Limiter
	gate   *gate.Gate
	home   *home
}

type homeKey struct {
	limiter limiter.Limiter
	store   budget.Store
}

// homeOf returns the home of a limiter and store, either of which may be nil.
func homeOf(l limiter.Limiter, s budget.Store, logger *slog.Logger) *home {
	if l == nil && inBubble() {
		return newHome(gate.New(memory.New()), s, logger)
	}
	shared.Lock()
	defer shared.Unlock()
	if l == nil {
		if shared.memory == nil {
			shared.memory = memory.New()
			shared.gate = shared.gates.get(shared.memory, func() *gate.Gate { return gate.New(shared.memory) })
			shared.home = newHome(shared.gate, nil, nil)
		}
		if l = shared.memory; s == nil {
			return shared.home
		}
	}
	if !hashable(l) || !hashable(s) {
		return newHome(gate.New(l), s, logger)
	}
	return shared.homes.get(homeKey{l, s}, func() *home {
		return newHome(shared.gates.get(l, func() *gate.Gate { return gate.New(l) }), s, logger)
	})
}

// inBubble reports whether we run in a testing/synctest bubble, where it is
// always about the year 2000. What lives in a bubble must not be shared with
// what lives outside, or in another: their times have nothing to do with each
// other, and their channels must not meet.
func inBubble() bool { return time.Now().Year() < 2010 }

func newHome(g *gate.Gate, s budget.Store, logger *slog.Logger) *home {
	h := &home{gate: g}
	h.book.Store = s
	if logger != nil {
		h.book.Fault = func(err error) {
			logger.Warn("what is learned and told cannot be shared: requests are sent all the same; mend or remove the file", "error", err)
		}
	}
	return h
}

// hashable reports whether an interface value can be a map's key.
func hashable(v any) bool { return v == nil || reflect.ValueOf(v).Comparable() }

// A registry finds what is in use by a key, and forgets what no longer is.
type registry[K comparable, V any] struct {
	m map[K]weak.Pointer[V]
}

// get returns the value of a key, made where there is none. The caller holds
// the lock of shared.
func (r *registry[K, V]) get(key K, create func() *V) *V {
	if v := r.m[key].Value(); v != nil {
		return v
	}
	v := create()
	r.put(key, v)
	return v
}

func (r *registry[K, V]) put(key K, v *V) {
	if r.m == nil {
		r.m = make(map[K]weak.Pointer[V])
	}
	r.m[key] = weak.Make(v)
	runtime.AddCleanup(v, func(key K) {
		shared.Lock()
		defer shared.Unlock()
		if r.m[key].Value() == nil {
			delete(r.m, key)
		}
	}, key)
}
