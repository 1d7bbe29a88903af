package goodput

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/paceline-proxy/paceline/stub"
)

// Oracle is how much of the main meter a perfectly informed client uses in the
// measured span of a trial: a number of requests, or of tokens. That client has begun at the same instant and has
// work at all times, its requests take no time to arrive, and it asks the
// meters themselves: whenever all of them would admit a request it sends one,
// and never otherwise. No meter of the stub rewards holding back, so none gets
// more through over the whole trial.
//
// For a window of n this comes to n in each window, for a bucket to its refill
// once the first burst is spent, and for places to one request after the other
// in each of them. A client that was slow before the span may enter it with a
// bucket still full, and so come out a few percent above.
//
// It is played against a stub without transit and penalties, which answers a
// client that asks too soon with the exact wait, at no cost. Answers are
// streamed: their head says at the instant of arrival what the meters decided.
func Oracle(t Trial) int {
	c := t.Scenario.config(stub.RetryAfterMS, t.Seed)
	c.Jitter, c.Penalise, c.Other, c.Refusals = 0, false, stub.Other{}, stub.Refusals(stub.HeadersNone)
	provider := must(stub.New(c))
	start := t.begin()
	ctx, stop := context.WithDeadline(context.Background(), start.Add(t.To))
	defer stop()

	var answers sync.WaitGroup
	asks := t.Scenario.newAsks()
	ask := asks.take()
	for ctx.Err() == nil {
		res, err := provider.RoundTrip(newRequest(ctx, base, ask.streamed()))
		if err != nil {
			break
		}
		if res.StatusCode == http.StatusOK {
			ask = asks.take()
			answers.Go(func() {
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
			})
			continue
		}
		res.Body.Close()
		// An error is the end of ctx, which the loop sees too.
		_ = sleep(ctx, max(toldWait(res.Header), time.Nanosecond))
	}
	answers.Wait()
	var o Outcome
	o.count(provider, start.Add(t.From), start.Add(t.To))
	return o.Charged
}

// streamed is the same request, whose answer says at once that it comes.
func (a ask) streamed() ask {
	a.body = strings.Replace(a.body, `"stream":false`, `"stream":true `, 1) // as long, so as dear
	return a
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // the configurations are this package's own
	}
	return v
}
