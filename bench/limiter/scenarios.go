package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/memory"
)

const ours = "paceline memory"

func scenarios() []scenario {
	return []scenario{
		{name: "clock and lock", system: "baseline", unit: "ns", measure: func() float64 { return cost(clockAndLock()) }},
		{name: "one window", system: ours, unit: "x baseline",
			measure: func() float64 { return beside(acquiring(memory.New(), oneWindow()), clockAndLock()) }},
		{name: "one limit", system: "x/time/rate", unit: "x baseline",
			measure: func() float64 { return beside(allowing(), clockAndLock()) }},
		{name: "three windows and places, with release", system: ours, unit: "x baseline", most: 4,
			measure: func() float64 { return beside(acquiring(memory.New(), caller(0)), clockAndLock()) }},
		{name: "refused", system: ours, unit: "x baseline",
			measure: func() float64 { return beside(refused(), clockAndLock()) }},
		{name: "1,000,000 calls a window", system: ours, unit: "x 100 calls", most: 1.3, measure: callsInWindow},
		{name: "two cores over many keys", system: ours, unit: "x one core", least: 1.6,
			measure: func() float64 { f := manyCallers(); return twoCores(f, f) }},
		{name: "two cores, a mutex each", system: "baseline", unit: "x one core",
			measure: func() float64 { return twoCores(clockAndLock(), clockAndLock()) }},
		{name: "bytes a window", system: ours, unit: "bytes", most: 20 << 10, measure: bytesOfWindow},
		{name: "bytes an idle caller", system: ours, unit: "bytes", most: 640, measure: bytesOfCaller},
		{name: "allocations an acquire", system: ours, unit: "allocations", most: 1, measure: allocations},
		{name: "bytes allocated an acquire", system: ours, unit: "bytes", most: 32, measure: allocated},
	}
}

var sink time.Duration

func clockAndLock() func(int) {
	var mu sync.Mutex
	base := time.Now()
	return func(n int) {
		var last time.Duration
		for range n {
			mu.Lock()
			last = time.Since(base)
			mu.Unlock()
		}
		sink = last
	}
}

// plenty is more calls than any measurement makes.
const plenty = 1 << 40

func oneWindow() limiter.Request {
	return limiter.Request{Key: "openai/00000000/", Limits: []limiter.Limit{
		{Key: "openai/00000000//requests", Calls: plenty, Per: time.Minute},
	}}
}

// caller is a request as a provider's caller makes it.
func caller(i int) limiter.Request {
	scope := fmt.Sprintf("openai/%08x/", i)
	requests := scope + "/requests"
	return limiter.Request{Key: scope, Hold: time.Minute, Limits: []limiter.Limit{
		{Key: requests, Calls: plenty, Per: time.Second},
		{Key: requests, Calls: plenty, Per: time.Minute},
		{Key: requests, Calls: plenty, Per: 24 * time.Hour},
		{Key: scope + "/places", Concurrent: 4},
	}}
}

func acquire(l *memory.Limiter, r limiter.Request) {
	ctx := context.Background()
	d, err := l.Acquire(ctx, r)
	if err != nil || !d.Granted {
		panic(fmt.Sprint("refused with room: ", d, err))
	}
	if d.Permit != "" {
		if err := l.Release(ctx, d.Permit); err != nil {
			panic(err)
		}
	}
}

func acquiring(l *memory.Limiter, r limiter.Request) func(int) {
	return func(n int) {
		for range n {
			acquire(l, r)
		}
	}
}

func refused() func(int) {
	l, r := memory.New(), oneWindow()
	r.Limits[0].Calls, r.Limits[0].Per = 100, time.Hour
	ctx := context.Background()
	for range 100 {
		acquire(l, r)
	}
	return func(n int) {
		for range n {
			if d, err := l.Acquire(ctx, r); err != nil || d.Granted {
				panic(fmt.Sprint("granted without room: ", d, err))
			}
		}
	}
}

func allowing() func(int) {
	l := rate.NewLimiter(rate.Limit(1e12), 1<<30)
	return func(n int) {
		for range n {
			if !l.Allow() {
				panic("refused with room")
			}
		}
	}
}

// callsInWindow compares windows that hold very different numbers of calls
// once they are full: each acquire takes one in and lets about one go.
func callsInWindow() float64 {
	pace := cost(acquiring(memory.New(), oneWindow()))
	holding := func(calls int) func(int) {
		l, r := memory.New(), oneWindow()
		r.Limits[0].Per = time.Duration(pace * float64(calls))
		acquiring(l, r)(2 * calls)
		return acquiring(l, r)
	}
	return beside(holding(1_000_000), holding(100))
}

// manyCallers asks for one of 2048 callers at a time, in no order.
func manyCallers() func(int) {
	l := memory.New()
	requests := make([]limiter.Request, 2048)
	for i := range requests {
		requests[i] = caller(i)
		requests[i].Limits[3].Concurrent = plenty // two may meet at one caller
		acquire(l, requests[i])
	}
	return func(n int) {
		rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
		for range n {
			acquire(l, requests[rng.IntN(len(requests))])
		}
	}
}

// twoCores is how many times as much two goroutines do in all as one of them.
func twoCores(one, other func(int)) float64 {
	return 2 * beside(one, func(n int) {
		var wg sync.WaitGroup
		for _, act := range []func(int){one, other} {
			wg.Go(func() { act(n) })
		}
		wg.Wait()
	})
}
