package goodput

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paceline-proxy/paceline/stub"
)

// base is where the provider lives in virtual time.
const base = "http://provider.test/v1"

// A load is clients that always have work.
type load struct {
	asks    *asks
	clients int
	url     string // of the API, up to and with /v1
	// regret is how long a client whose task failed takes to begin its next.
	// Without it a system that never waits would do nothing but fail, at
	// whatever speed the machine allows.
	regret time.Duration
}

// run keeps the clients busy until ctx ends, and returns when all have left.
func (l load) run(ctx context.Context, through http.RoundTripper, chance *rand.Rand) {
	var clients sync.WaitGroup
	for range l.clients {
		// They do not all begin at one instant.
		delay := time.Duration(chance.Int64N(int64(time.Second)))
		clients.Go(func() {
			for wait := delay; sleep(ctx, wait) == nil; {
				if wait = 0; !l.task(ctx, through) {
					wait = l.regret
				}
			}
		})
	}
	clients.Wait()
}

// An ask is one request: where under /v1 it goes, its body, and what it costs
// at the provider, in the words of stub.UsageHeader.
type ask struct{ path, body, usage string }

const prompt = `{"stream":false,"model":"stub-1","messages":[{"role":"user","content":"Say something."}]}`

// asks are what the clients of a trial ask for, in turn and from the start.
type asks struct {
	all  []ask
	next atomic.Uint64
}

func (s Scenario) newAsks() *asks {
	if len(s.Asks) == 0 {
		return &asks{all: []ask{{path: "/chat/completions", body: prompt}}}
	}
	return &asks{all: s.Asks}
}

func (a *asks) take() ask { return a.all[(a.next.Add(1)-1)%uint64(len(a.all))] }

// task makes one call and reads its answer.
func (l load) task(ctx context.Context, through http.RoundTripper) (done bool) {
	res, err := through.RoundTrip(newRequest(ctx, l.url, l.asks.take()))
	if err != nil {
		return false
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return err == nil && res.StatusCode == http.StatusOK
}

func newRequest(ctx context.Context, base string, a ask) *http.Request {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+a.path, strings.NewReader(a.body))
	if err != nil {
		panic(err) // the URL is a constant, or a test server's own
	}
	req.Header.Set("Authorization", "Bearer sk-goodput")
	req.Header.Set("Content-Type", "application/json")
	if a.usage != "" {
		req.Header.Set(stub.UsageHeader, a.usage)
	}
	return req
}
