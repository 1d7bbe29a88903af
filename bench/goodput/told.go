package goodput

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/paceline-proxy/paceline/stub"
)

// Another is somebody else with the same key, who takes a share of what the
// main meter allows, in bursts: the whole share of a period at once.
type Another struct {
	Share float64
	Every time.Duration
}

// run sends bursts until ctx ends. What is refused is not sent again.
func (o Another) run(ctx context.Context, m stub.Meter, provider http.RoundTripper, chance *rand.Rand) {
	if o.Share == 0 {
		return
	}
	n := int(o.Share * float64(m.Limit) * float64(o.Every) / float64(m.Per))
	var sent sync.WaitGroup
	for wait := time.Duration(chance.Int64N(int64(o.Every))); sleep(ctx, wait) == nil; wait = o.Every {
		for range n {
			sent.Go(func() {
				if res, err := provider.RoundTrip(newRequest(ctx, base, prompt)); err == nil {
					io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
			})
		}
	}
	sent.Wait()
}

// A tally counts the answers that pass, by the instant they were asked for.
type tally struct {
	base     http.RoundTripper
	from, to time.Time

	mu                sync.Mutex
	admitted, refused int
}

func (t *tally) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := time.Now()
	res, err := t.base.RoundTrip(req)
	if err != nil || sent.Before(t.from) || !sent.Before(t.to) {
		return res, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch res.StatusCode {
	case http.StatusOK:
		t.admitted++
	case http.StatusTooManyRequests:
		t.refused++
	}
	return res, err
}

// ToldRows are those of row 2: nobody declares anything, and every answer tells
// what is left.
func ToldRows(scenarios []Scenario) (rows []Row) {
	for _, s := range scenarios {
		if m, counts := s.main(); !counts || s.places() > 0 || len(s.Meters) > 1 || s.Penalise || m.Per != minute {
			continue
		}
		for _, headers := range []stub.Headers{stub.HeadersOpenAI, stub.HeadersAnthropic} {
			for _, v := range []struct {
				name    string
				at      stub.HeadersAt
				service time.Duration
				clients int
				another Another
			}{
				{"alone, 60 ms", stub.AtAdmission, 60 * time.Millisecond, 24, Another{}},
				{"alone, 2 s, at the head", stub.AtHead, 2 * second, 24, Another{}},
				{"alone, 20 s", stub.AtAdmission, 20 * second, 256, Another{}},
				{"alone, 20 s, at the head", stub.AtHead, 20 * second, 256, Another{}},
				{"another, 60 ms", stub.AtAdmission, 60 * time.Millisecond, 24, Another{0.4, 20 * second}},
				{"another, 2 s, at the head", stub.AtHead, 2 * second, 64, Another{0.4, 20 * second}},
				{"another, 20 s", stub.AtAdmission, 20 * second, 256, Another{0.4, 20 * second}},
			} {
				told := s
				told.Headers, told.HeadersAt, told.Clients, told.Another = headers, v.at, v.clients, v.another
				told.Service, told.Spread = v.service, v.service/2
				told.Name = fmt.Sprintf("%s, %s: %s", s.Name, headers, v.name)
				rows = append(rows, Row{"2", told.Name, toldFigure, Trial{
					Scenario: told, System: Untold, Tells: stub.RetryAfterSeconds, From: minute, To: 11 * minute,
				}, 0})
			}
		}
	}
	return rows
}
