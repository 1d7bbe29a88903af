package postgres

import (
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/internal/servertest"
	"github.com/paceline-proxy/paceline/limiter"
)

// Whoever asks sweeps now and then.
func TestSweepsByTheWay(t *testing.T) {
	t.Parallel()
	l, err := Open(t.Context(), servertest.Postgres(t), Options{Schema: "sweeping by the way"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	defer l.call(t.Context(), "drop schema "+l.schema+" cascade")
	r := limiter.Request{Key: "c", Hold: time.Millisecond, Limits: []limiter.Limit{{Key: "p", Concurrent: 9}}}
	permits := func() string {
		row, err := l.call(t.Context(), "select count(*) from "+l.schema+".permit")
		if err != nil {
			t.Fatal(err)
		}
		return string(row[0])
	}
	if _, err := l.Acquire(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Millisecond)
	if n := permits(); n != "1" {
		t.Fatalf("%s permits before it is time", n)
	}
	l.swept.Store(-int64(sweepEvery))
	for deadline := time.Now().Add(10 * time.Second); permits() != "0"; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the lapsed permit is still there")
		}
	}
}
