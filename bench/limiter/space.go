package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/memory"
)

// heap is how many bytes are in use once everything idle is gone.
func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

func bytesOfWindow() float64 {
	const windows, calls = 64, 3000
	before := heap()
	l := memory.New()
	for range calls {
		for i := range windows {
			acquire(l, limiter.Request{Limits: []limiter.Limit{
				{Key: fmt.Sprint("window ", i), Calls: 1_000_000, Per: 24 * time.Hour},
			}})
		}
	}
	each := (heap() - before) / windows
	runtime.KeepAlive(l)
	return each
}

func bytesOfCaller() float64 {
	const callers = 50_000
	before := heap()
	l := memory.New()
	for i := range callers {
		acquire(l, caller(i))
	}
	each := (heap() - before) / callers
	runtime.KeepAlive(l)
	return each
}

func allocations() float64 {
	mallocs, _ := spent()
	return mallocs
}

func allocated() float64 {
	_, bytes := spent()
	return bytes
}

// spent is what an acquire with release allocates.
func spent() (mallocs, bytes float64) {
	const n = 100_000
	l, r := memory.New(), caller(0)
	act := acquiring(l, r)
	act(5000) // until the rings have grown
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	act(n)
	runtime.ReadMemStats(&after)
	if err := l.Release(context.Background(), ""); err != nil {
		panic(err)
	}
	return float64(after.Mallocs-before.Mallocs) / n, float64(after.TotalAlloc-before.TotalAlloc) / n
}
