package daemon

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/google/renameio/v2/maybe"

	"github.com/paceline-proxy/paceline/internal/home"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/memory"
)

// What a drained proxy still passes on occupies places at the provider. It
// hands them to its successor by name and tells it when each is free, so that
// nobody sends too much meanwhile, and nobody waits for places that are free.

// A held is what one request of a drained proxy occupies.
type held struct {
	Permit string   `json:"permit"`
	Places []string `json:"places"` // buckets
}

// An inheritance is what a drained proxy hands over.
type inheritance struct {
	PID  int    `json:"pid"`
	Held []held `json:"held"`
}

// released is what it says later.
type released struct {
	Permits []string `json:"permits"`
}

const releasedPath = "/control/released"

// A holder is a limiter of this process that knows who holds places. Where hosts
// share one, nothing is handed over: a place belongs to its permit, whichever
// process asks.
type holder struct {
	*memory.Limiter
	heirs

	mu     sync.Mutex
	places map[string][]string // buckets by permit
	handed bool
	freed  []string // since, and not told yet
}

func newHolder(l *memory.Limiter) *holder { return &holder{Limiter: l, heirs: heirs{limiter: l}} }

// heirs are the places that are held for a predecessor.
type heirs struct {
	limiter interface {
		limiter.Limiter
		limiter.Renewer
	}

	mu      sync.Mutex
	permits map[string]string // by the predecessor's own
}

// askAgain is after how long places are asked for again that a predecessor may
// give back meanwhile.
const askAgain = 100 * time.Millisecond

// Acquire grants as the limiter does.
func (h *holder) Acquire(ctx context.Context, r limiter.Request) (limiter.Decision, error) {
	d, err := h.Limiter.Acquire(ctx, r)
	if err == nil && d.Granted {
		h.note(d.Permit, r.Limits)
	} else if err == nil && len(h.inherited()) > 0 {
		soon := d.Now.Add(askAgain)
		for i, refused := range d.Refused {
			if refused.Cause == limiter.Concurrent && refused.RetryAt.After(soon) {
				d.Refused[i].RetryAt = soon
			}
		}
		d.RetryAt = d.Now
		for _, refused := range d.Refused {
			if refused.RetryAt.After(d.RetryAt) {
				d.RetryAt = refused.RetryAt
			}
		}
	}
	return d, err
}

func (h *holder) note(permit string, limits []limiter.Limit) {
	var places []string
	for _, l := range limits {
		if l.Concurrent > 0 {
			places = append(places, l.Key)
		}
	}
	if len(places) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.places == nil {
		h.places = make(map[string][]string)
	}
	h.places[permit] = places
}

// Release frees the places of a permit, here or at the successor.
func (h *holder) Release(ctx context.Context, permit string) error {
	h.mu.Lock()
	_, known := h.places[permit]
	delete(h.places, permit)
	if h.handed && known {
		h.freed = append(h.freed, permit)
	}
	h.mu.Unlock()
	return h.Limiter.Release(ctx, permit)
}

// hand gives all places away: they are not ours from here on, nor in the
// journal.
func (h *holder) hand() (all []held) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.handed = true
	for permit, places := range h.places {
		all = append(all, held{permit, places})
		_ = h.Limiter.Release(context.Background(), permit) // it has no error
	}
	return all
}

// untold are permits that ended since they were handed over.
func (h *holder) untold() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	freed := h.freed
	h.freed = nil
	return freed
}

// handOver writes down what still runs.
func (d *daemon) handOver() {
	if d.own == nil {
		return
	}
	all := d.own.hand()
	if len(all) == 0 {
		return
	}
	b, err := json.Marshal(inheritance{os.Getpid(), all})
	if err == nil {
		err = maybe.WriteFile(d.Home.Held(), b, 0o600)
	}
	if err != nil {
		d.Logger.Warn("a successor will not know what still runs here", "error", err)
	}
}

// tellEvery is how often a successor is told.
const tellEvery = 20 * time.Millisecond

// tell tells a successor what has ended, until ctx ends and there is nothing
// more to tell, or nobody to be told.
func (d *daemon) tell(ctx context.Context) {
	if d.own == nil {
		return
	}
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	var freed []string
	for last := false; ; {
		select {
		case <-ctx.Done():
			last = true
		case <-tick.C:
		}
		freed = append(freed, d.own.untold()...)
		if len(freed) > 0 && d.tellOnce(freed) {
			freed = nil
		}
		if last {
			break
		}
	}
	// Where nobody came, nothing runs any more either.
	if in, err := readInheritance(d.Home); err == nil && in.PID == os.Getpid() {
		_ = os.Remove(d.Home.Held())
	}
}

func (d *daemon) tellOnce(permits []string) bool {
	s, err := d.Home.Recorded()
	if err != nil || s.PID == os.Getpid() {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return d.Home.ClientOf(s).Call(ctx, http.MethodPost, releasedPath, released{permits}, nil) == nil
}

func readInheritance(h home.Home) (in inheritance, err error) {
	b, err := os.ReadFile(h.Held())
	if err != nil {
		return in, err
	}
	return in, json.Unmarshal(b, &in)
}

// anyPlaces is more than anybody uses.
const anyPlaces = 1 << 30

// inherit takes over the places that a predecessor still uses.
func (d *daemon) inherit(ctx context.Context) {
	in, err := readInheritance(d.Home)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		d.Logger.Warn("what a predecessor still runs is not known", "file", d.Home.Held(), "error", err)
	}
	_ = os.Remove(d.Home.Held()) // an old one does no harm: its process is gone
	d.heirs.takeOver(ctx, in.Held)
	if len(in.Held) > 0 {
		go d.mind(ctx, in.PID)
	}
}

// takeOver holds the places of a predecessor for it.
func (h *heirs) takeOver(ctx context.Context, all []held) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.permits = make(map[string]string)
	for _, theirs := range all {
		r := limiter.Request{Key: "~predecessor", Cost: 1, Hold: time.Minute}
		for _, bucket := range theirs.Places {
			r.Limits = append(r.Limits, limiter.Limit{Key: bucket, Concurrent: anyPlaces})
		}
		if got, err := h.limiter.Acquire(ctx, r); err == nil && got.Granted {
			h.permits[theirs.Permit] = got.Permit
		}
	}
}

// mind keeps inherited places as long as the predecessor runs. If it goes
// without a word its provider may still be at work.
func (d *daemon) mind(ctx context.Context, pid int) {
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for {
		hold := time.Minute
		gone := !home.Exists(pid)
		if gone {
			hold = d.abortHold()
		}
		rest := d.heirs.inherited()
		if len(rest) == 0 || d.heirs.limiter.Renew(ctx, rest, hold) != nil || gone {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// inherited are the permits held for a predecessor.
func (h *heirs) inherited() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.permits))
}

// free releases what is held for permits of a predecessor.
func (h *heirs) free(theirs []string) (err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range theirs {
		if permit, ours := h.permits[p]; ours {
			err = errors.Join(err, h.limiter.Release(context.Background(), permit))
			delete(h.permits, p)
		}
	}
	return err
}

// hear listens, in front of the proxy, to a predecessor.
func (d *daemon) hear(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != releasedPath || r.Method != http.MethodPost ||
			subtle.ConstantTimeCompare([]byte(r.Header.Get("X-Paceline-Token")), []byte(d.token)) != 1 {
			next.ServeHTTP(w, r)
			return
		}
		var said released
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 16<<20)).Decode(&said); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := d.heirs.free(said.Permits); err != nil {
			d.Logger.Warn("places of a predecessor were not given back: they lapse", "error", err)
		}
	})
}
