package stub_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline/stub"
)

// One before, and at, the instant a meter opens again.
func opensAfter(t *testing.T, s *stub.Stub, d time.Duration, refused string) {
	t.Helper()
	time.Sleep(d - 1)
	expect(t, s, refused)
	time.Sleep(1)
	expect(t, s, "200")
}

func TestRollingWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustStub(t, stub.Config{Meters: []stub.Meter{{Kind: stub.Rolling, Limit: 3, Per: 10 * time.Second}}})
		expect(t, s, "200")
		time.Sleep(4 * time.Second)
		expect(t, s, "200", "200", "429 6")
		opensAfter(t, s, 6*time.Second, "429 1")
		// The next place is the one of the fourth second.
		expect(t, s, "429 4")
		time.Sleep(4 * time.Second)
		expect(t, s, "200", "200", "429 6")
		counts(t, s, stub.Counts{Admitted: 6, Refused: 4, PeakLive: 1, PeakWindow: 3, Early: 3})
	})
}

func TestFixedWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustStub(t, stub.Config{Meters: []stub.Meter{{Kind: stub.Fixed, Limit: 2, Per: time.Minute}}})
		// Bubbles begin at midnight, so this is 50 s into a minute.
		time.Sleep(50 * time.Second)
		expect(t, s, "200", "200", "429 10")
		opensAfter(t, s, 10*time.Second, "429 1")
		expect(t, s, "200", "429 60")
		// The flaw of fixed windows shows: four within a minute.
		counts(t, s, stub.Counts{Admitted: 4, Refused: 3, PeakLive: 1, PeakWindow: 4, Early: 4})
	})
}

func TestBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustStub(t, stub.Config{Meters: []stub.Meter{{Kind: stub.Bucket, Limit: 15, Per: time.Minute, Burst: 3}}})
		expect(t, s, "200", "200", "200", "429 4")
		opensAfter(t, s, 4*time.Second, "429 1")
		expect(t, s, "429 4")
		time.Sleep(8 * time.Second)
		expect(t, s, "200", "200", "429 4")
		// However long it rests, it holds no more than its burst.
		time.Sleep(1000 * time.Hour)
		expect(t, s, "200", "200", "200", "429 4")
	})
}

func TestBucketWithUnevenRate(t *testing.T) {
	// 7 a minute is no whole number of nanoseconds: the token is there at the
	// first nanosecond after, and the remainders are not lost. (In a bucket of
	// one they would be: it is full while the rest of the nanosecond passes.)
	synctest.Test(t, func(t *testing.T) {
		s := mustStub(t, stub.Config{Meters: []stub.Meter{{Kind: stub.Bucket, Limit: 7, Burst: 2}}, RetryAfter: stub.RetryAfterMS})
		expect(t, s, "200", "200")
		for n := 1; n <= 70; n++ {
			exact := (int64(n)*int64(time.Minute) + 6) / 7
			before := (int64(n-1)*int64(time.Minute) + 6) / 7
			opensAfter(t, s, time.Duration(exact-before), "429 1")
		}
		counts(t, s, stub.Counts{Admitted: 72, Refused: 70, PeakLive: 1, PeakWindow: 8, Early: 70})
	})
}

func TestConcurrentIsExact(t *testing.T) {
	for name, c := range map[string]stub.Config{
		"meter": {Meters: []stub.Meter{{Kind: stub.Concurrent, Limit: 2}}},
		"field": {Concurrent: 2},
		"both":  {Meters: []stub.Meter{{Kind: stub.Concurrent, Limit: 9}}, Concurrent: 2},
		"named": {Meters: []stub.Meter{{Kind: stub.Concurrent}}, Concurrent: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.Service = 10 * time.Second
				s := mustStub(t, c)
				for range 2 {
					go post(t, s, chat, `{}`)
					time.Sleep(3 * time.Second)
				}
				expect(t, s, "429 4") // ends are at 10 and 13, now is 6
				time.Sleep(4*time.Second - 1)
				expect(t, s, "429 1")
				time.Sleep(1)
				go post(t, s, chat, `{}`)
				synctest.Wait()
				expect(t, s, "429 3")
				time.Sleep(10 * time.Second)
				counts(t, s, stub.Counts{Admitted: 3, Refused: 3, PeakLive: 2, PeakWindow: 3, Early: 3})
			})
		})
	}
}

func TestMetersCombine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustStub(t, stub.Config{
			Meters: []stub.Meter{
				{Kind: stub.Bucket, Limit: 60, Per: time.Minute, Burst: 4},
				{Kind: stub.Rolling, Limit: 2, Per: 3 * time.Second},
			},
			Concurrent: 1,
			Service:    0,
		})
		expect(t, s, "200", "200", "429 3", "429 3")
		// Refused by the window alone: the bucket lost nothing and is full.
		time.Sleep(3 * time.Second)
		expect(t, s, "200", "200", "429 3")
		time.Sleep(3 * time.Second)
		expect(t, s, "200", "200", "429 3")
		counts(t, s, stub.Counts{Admitted: 6, Refused: 4, PeakLive: 1, PeakWindow: 6, Early: 0})
	})
}

func TestWaitIsTheLatestOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustStub(t, stub.Config{
			Meters:     []stub.Meter{{Kind: stub.Rolling, Limit: 1, Per: 5 * time.Second}},
			Concurrent: 1,
			Service:    30 * time.Second,
		})
		go post(t, s, chat, `{}`)
		synctest.Wait()
		expect(t, s, "429 30")
		time.Sleep(30 * time.Second)
		go post(t, s, chat, `{}`)
		time.Sleep(30*time.Second - 1)
		expect(t, s, "429 1")
		time.Sleep(time.Second)
	})
}

func TestPenalise(t *testing.T) {
	for _, test := range []struct {
		name  string
		meter stub.Meter
		want  []string
		opens time.Duration
	}{
		{"rolling", stub.Meter{Kind: stub.Rolling, Limit: 2, Per: 10 * time.Second},
			[]string{"200", "200", "429 10", "429 10"}, 10 * time.Second},
		{"bucket", stub.Meter{Kind: stub.Bucket, Limit: 1, Per: time.Second, Burst: 3},
			// Three tokens, then three below empty, and no further.
			[]string{"200", "200", "200", "429 2", "429 3", "429 4", "429 4", "429 4"}, 4 * time.Second},
		{"fixed", stub.Meter{Kind: stub.Fixed, Limit: 1, Per: 10 * time.Second},
			[]string{"200", "429 10", "429 10"}, 10 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mustStub(t, stub.Config{Meters: []stub.Meter{test.meter}, Penalise: true})
				expect(t, s, test.want...)
				time.Sleep(test.opens)
				expect(t, s, "200")
			})
		})
	}
}

func TestPenaltyKeepsARollingWindowShut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustStub(t, stub.Config{Meters: []stub.Meter{{Kind: stub.Rolling, Limit: 1, Per: 2 * time.Second}}, Penalise: true})
		expect(t, s, "200")
		for range 100 {
			time.Sleep(time.Second)
			expect(t, s, "429 2")
		}
		time.Sleep(2 * time.Second)
		expect(t, s, "200")
	})
}

func TestRefusalByTheCapPenalisesTheMeters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustStub(t, stub.Config{
			Meters:     []stub.Meter{{Kind: stub.Bucket, Limit: 1, Per: 10 * time.Second, Burst: 2}},
			Concurrent: 1, Service: time.Second, Penalise: true,
		})
		go post(t, s, chat, `{}`)
		synctest.Wait()
		expect(t, s, "429 10") // the second token went to the penalty
		time.Sleep(10 * time.Second)
		expect(t, s, "200")
	})
}

func TestZeroConfigNeverRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustStub(t, stub.Config{})
		for range 1000 {
			expect(t, s, "200")
		}
		counts(t, s, stub.Counts{Admitted: 1000, PeakLive: 1, PeakWindow: 1000})
	})
}

func TestJitterIsSeeded(t *testing.T) {
	arrivals := func(seed uint64) (all []time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			s := mustStub(t, stub.Config{Jitter: time.Second, Service: time.Minute, ServiceSpread: time.Minute, Seed: seed})
			for range 200 {
				began := time.Now()
				resp, _ := post(t, s, chat, `{}`)
				resp.Body.Close()
				a := s.Arrivals()
				transit, service := a[len(a)-1].At.Sub(began), time.Since(a[len(a)-1].At)
				if transit < 0 || transit >= time.Second {
					t.Fatalf("transit of %v", transit)
				}
				if service < time.Minute || service >= 2*time.Minute {
					t.Fatalf("service of %v", service)
				}
				all = append(all, transit, service)
			}
		})
		return all
	}
	first, again, other := arrivals(7), arrivals(7), arrivals(8)
	same := 0
	for i := range first {
		if first[i] != again[i] {
			t.Fatalf("draw %d differs under one seed: %v, %v", i, first[i], again[i])
		}
		if first[i] == other[i] {
			same++
		}
	}
	if same > 5 {
		t.Errorf("two seeds drew %d equal numbers", same)
	}
}
