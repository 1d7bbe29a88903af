package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// body is a request of 1 KiB.
var body = `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x", 960) + `"}]}`

// A load is clients that each send one request after the other.
type load struct {
	client  *http.Client
	url     string
	service time.Duration
}

func newLoad(addr, path string, service time.Duration) *load {
	return &load{
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true}},
		url:    "http://" + addr + path, service: service,
	}
}

func (l *load) one(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer sk-bench")
	req.Header.Set("X-Service", l.service.String())
	res, err := l.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || len(b) != len(answer) {
		return fmt.Errorf("%s: %s %.100s %w", l.url, res.Status, b, err)
	}
	return nil
}

// run has so many clients send while more says so, and counts.
func (l *load) run(ctx context.Context, clients int, more func() bool) (done int64, err error) {
	var (
		wg    sync.WaitGroup
		n     atomic.Int64
		fault atomic.Pointer[error]
	)
	for range clients {
		wg.Go(func() {
			for more() && fault.Load() == nil {
				if err := l.one(ctx); err != nil {
					fault.Store(&err)
					return
				}
				n.Add(1)
			}
		})
	}
	wg.Wait()
	if p := fault.Load(); p != nil {
		return n.Load(), *p
	}
	return n.Load(), nil
}

// rate is the requests a second of so many clients.
func (l *load) rate(ctx context.Context, clients int, d time.Duration) (float64, error) {
	begun := time.Now()
	n, err := l.run(ctx, clients, func() bool { return time.Since(begun) < d })
	return float64(n) / time.Since(begun).Seconds(), err
}

// throughput is row 4: beside a bare ReverseProxy where the provider takes
// 5 ms, beside no proxy where it takes 200 ms.
func throughput(ctx context.Context) error {
	s, err := startAll(ctx, 0)
	defer s.stop()
	if err != nil {
		return err
	}
	for _, c := range []struct {
		scenario, beside string
		addr             string
		service          time.Duration
		clients          int
	}{
		{"5 ms service, 8 clients", "bare", s.bare.addr, 5 * time.Millisecond, 8},
		{"200 ms service, 64 clients", "direct", s.provider.addr, 200 * time.Millisecond, 64},
	} {
		ours, theirs := newLoad(s.paceline.addr, "/bench/v1/chat/completions", c.service), newLoad(c.addr, "/v1/chat/completions", c.service)
		var rates [2][]float64
		var ratios []float64
		for run := range 1 + *runs {
			var got [2]float64
			for i, l := range []*load{theirs, ours} {
				if got[i], err = l.rate(ctx, c.clients, *duration); err != nil {
					return err
				}
			}
			if run == 0 {
				continue // connections are made and the first heads come
			}
			ratios = append(ratios, got[1]/got[0])
			for i := range got {
				rates[i] = append(rates[i], got[i])
			}
		}
		figure{Row: "4", Scenario: c.scenario, System: c.beside, Value: median(rates[0]), Unit: "req/s"}.print()
		figure{Row: "4", Scenario: c.scenario, System: "paceline", Value: median(rates[1]), Unit: "req/s", Ratio: median(ratios)}.print()
	}
	return nil
}

// processor is row 5: the time of the process itself, as the kernel counts it.
func processor(ctx context.Context) error {
	s, err := startAll(ctx, 0)
	defer s.stop()
	if err != nil {
		return err
	}
	systems := []struct {
		child *child
		load  *load
	}{{s.bare, newLoad(s.bare.addr, "/v1/chat/completions", 0)}, {s.paceline, newLoad(s.paceline.addr, "/bench/v1/chat/completions", 0)}}
	var costs [2][]float64
	var ratios []float64
	for run := range 1 + *runs {
		var got [2]float64
		for i, system := range systems {
			before, err := system.child.used()
			if err != nil {
				return err
			}
			var left atomic.Int64
			left.Store(int64(*requests))
			n, err := system.load.run(ctx, 16, func() bool { return left.Add(-1) >= 0 })
			if err != nil {
				return err
			}
			after, err := system.child.used()
			if err != nil {
				return err
			}
			got[i] = float64((after - before).Microseconds()) / float64(n)
		}
		if run == 0 {
			continue
		}
		ratios = append(ratios, got[1]/got[0])
		for i := range got {
			costs[i] = append(costs[i], got[i])
		}
	}
	figure{Row: "5", Scenario: "1 KiB, 16 clients, log and metrics on", System: "bare", Value: median(costs[0]), Unit: "us/request"}.print()
	figure{Row: "5", Scenario: "1 KiB, 16 clients, log and metrics on", System: "paceline", Value: median(costs[1]), Unit: "us/request", Ratio: median(ratios)}.print()
	return nil
}
