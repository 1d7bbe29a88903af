package limiter_test

import (
	"slices"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

func TestRequestEqual(t *testing.T) {
	request := func() limiter.Request {
		return limiter.Request{Key: "c", Cost: 1, Hold: time.Minute, Limits: []limiter.Limit{
			{Key: "a", Calls: 2, Per: time.Second, Concurrent: 3, Cost: 4},
			{Key: "b", Concurrent: 5},
		}}
	}
	if r := request(); !r.Equal(request()) {
		t.Errorf("%+v is not equal to itself", r)
	}
	for name, change := range map[string]func(*limiter.Request){
		"key":        func(r *limiter.Request) { r.Key = "d" },
		"cost":       func(r *limiter.Request) { r.Cost = 0 },
		"hold":       func(r *limiter.Request) { r.Hold = 0 },
		"bucket":     func(r *limiter.Request) { r.Limits[0].Key = "d" },
		"calls":      func(r *limiter.Request) { r.Limits[0].Calls++ },
		"per":        func(r *limiter.Request) { r.Limits[0].Per++ },
		"concurrent": func(r *limiter.Request) { r.Limits[1].Concurrent++ },
		"own cost":   func(r *limiter.Request) { r.Limits[0].Cost++ },
		"order":      func(r *limiter.Request) { slices.Reverse(r.Limits) },
		"fewer":      func(r *limiter.Request) { r.Limits = r.Limits[:1] },
	} {
		other := request()
		change(&other)
		if request().Equal(other) || other.Equal(request()) {
			t.Errorf("%s: equal to %+v", name, other)
		}
	}
}
