package limitertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

var grants = []Case{
	{"within its limits", []string{"CC-01", "L-38"},
		"a call that every limit has room for goes ahead", checkWithin},
	{"one of several full", []string{"CC-02", "L-38", "L-66"},
		"one full limit is enough to refuse, and the refusal says until when", checkOneFull},
	{"refusal spends nothing", []string{"CC-03", "L-41", "L-42"},
		"a call that was not made must not use up what another could", checkRefusalFree},
	{"grant counts everywhere", []string{"CC-04", "L-40"},
		"a call takes part of every limit it is under", checkCountsEverywhere},
	{"buckets are independent", []string{"CC-21", "L-43"},
		"a bucket is its key and the key is opaque", checkIndependent},
	{"callers share a bucket", []string{"CC-22", "L-45"},
		"the provider counts an account, whoever calls", checkShared},
	{"new limits need no configuration", []string{"CC-23", "L-61", "L-62"},
		"all limits arrive in the request", checkNewLimits},
	{"numbers of the request at hand", []string{"L-61"},
		"a limit that changed is judged by its new numbers over the calls already made", checkNumbers},
	{"a longer window remembers", []string{"L-63"},
		"calls already made count when the same bucket is asked with another span", checkLonger},
	{"two windows over one bucket", []string{"L-38", "L-46", "L-63"},
		"providers limit a second and a minute of the same calls", checkTwoWindows},
	{"no limits", []string{"L-64"},
		"nothing to be over", checkNoLimits},
	{"impossible requests", []string{"L-53", "L-65"},
		"what makes no sense is an error, not a refusal, and counts nothing", checkInvalid},
}

func checkWithin(s *Subject) error {
	_, _, err := s.Fill(3, s.By("c", s.Rate("a", 3, 20), s.Rate("b", 5, 30)))
	return err
}

func checkOneFull(s *Subject) error {
	both := s.By("c", s.Rate("roomy", 5, 20), s.Rate("tight", 1, 20))
	first, err := s.Granted("the first", both)
	if err != nil {
		return err
	}
	d, err := s.Refused("the second", both, limiter.Rate)
	if err != nil {
		return err
	}
	if len(d.Refused) != 1 || d.Refused[0].Key != s.Key("tight") {
		return fmt.Errorf("refused by %v, want the tight bucket alone", causes(d))
	}
	return s.At("the second", d, first.Now.Add(s.Units(20)))
}

func checkRefusalFree(s *Subject) error {
	spare, full := s.Rate("spare", 2, 20), s.Rate("full", 1, 20)
	places := s.Places("places", 1)
	if _, err := s.Granted("the only call of full", s.By("c", full)); err != nil {
		return err
	}
	for range 3 { // whichever is looked at first
		if _, err := s.Refused("spare, places and full", s.By("c", spare, places, full)); err != nil {
			return err
		}
		if _, err := s.Refused("full, places and spare", s.By("c", full, places, spare)); err != nil {
			return err
		}
	}
	if _, err := s.Granted("a place after refusals", s.By("c", places)); err != nil {
		return err
	}
	if _, err := s.Refused("no place and spare", s.By("c", spare, places), limiter.Concurrent); err != nil {
		return err
	}
	if _, _, err := s.Fill(2, s.By("c", spare)); err != nil {
		return fmt.Errorf("after refusals: %w", err)
	}
	_, err := s.Refused("one more than spare allows", s.By("c", spare), limiter.Rate)
	return err
}

func checkCountsEverywhere(s *Subject) error {
	limits := []limiter.Limit{s.Rate("a", 1, 20), s.Rate("b", 1, 20), s.Rate("c", 1, 20)}
	if _, err := s.Granted("all", s.By("c", limits...)); err != nil {
		return err
	}
	for _, l := range limits {
		if _, err := s.Refused(l.Key, s.By("c", l), limiter.Rate); err != nil {
			return err
		}
	}
	return nil
}

func checkIndependent(s *Subject) error {
	names := []string{
		"x", "X", "x/", "/x", "x/y", "x%2Fy", "x:y", "{x}", "x y", " x", "x*", "x'y", `x"y`, `x\y`, "é", "e\u0301",
		"日本", "", strings.Repeat("long", 300), strings.Repeat("long", 300) + "r",
	}
	for _, name := range names {
		if _, err := s.Granted("bucket "+name, s.By("c", s.Rate(name, 1, 50))); err != nil {
			return err
		}
	}
	for _, name := range names {
		if _, err := s.Refused("bucket "+name, s.By("c", s.Rate(name, 1, 50))); err != nil {
			return err
		}
	}
	return nil
}

func checkShared(s *Subject) error {
	shared := s.Rate("shared", 2, 20)
	for _, caller := range []string{"one", "two"} {
		if _, err := s.Granted(caller, s.By(caller, shared)); err != nil {
			return err
		}
	}
	for _, caller := range []string{"one", "two", "three"} {
		if _, err := s.Refused(caller, s.By(caller, shared), limiter.Rate); err != nil {
			return err
		}
	}
	return nil
}

func checkNewLimits(s *Subject) error {
	if _, err := s.Granted("one limit", s.By("c", s.Rate("a", 5, 20))); err != nil {
		return err
	}
	more := s.By("c", s.Rate("a", 5, 20), s.Rate("never seen", 1, 20), s.Places("nor this", 1))
	if _, err := s.Granted("with new limits", more); err != nil {
		return err
	}
	_, err := s.Refused("with new limits", more, limiter.Rate, limiter.Concurrent)
	return err
}

func checkNumbers(s *Subject) error {
	if _, _, err := s.Fill(2, s.By("c", s.Rate("a", 2, 20))); err != nil {
		return err
	}
	if _, err := s.Granted("a raised limit", s.By("c", s.Rate("a", 3, 20))); err != nil {
		return err
	}
	_, err := s.Refused("a lowered limit", s.By("c", s.Rate("a", 1, 20)))
	return err
}

func checkLonger(s *Subject) error {
	// The bucket's history is kept for the longest span so far, not for that of
	// the last request.
	if _, err := s.Granted("long", s.By("c", s.Rate("a", 9, 20))); err != nil {
		return err
	}
	s.Sleep(s.Units(3))
	first, _, err := s.Fill(2, s.By("c", s.Rate("a", 2, 2)))
	if err != nil {
		return err
	}
	s.Sleep(s.Units(3))
	if _, err := s.Granted("short, after its span", s.By("c", s.Rate("a", 2, 2))); err != nil {
		return err
	}
	d, err := s.Refused("long, with four calls made", s.By("c", s.Rate("a", 3, 20)))
	if err != nil {
		return err
	}
	// Two of the four have to go: the first long one and the first short one.
	return s.At("long", d, first.Now.Add(s.Units(20)))
}

func checkTwoWindows(s *Subject) error {
	both := s.By("c", s.Rate("a", 1, 2), s.Rate("a", 2, 10))
	first, err := s.Granted("the first", both)
	if err != nil {
		return err
	}
	d, err := s.Refused("the second", both)
	if err != nil {
		return err
	}
	if len(d.Refused) != 1 {
		return fmt.Errorf("refused by %s: want one entry for the bucket", causes(d))
	}
	if err := s.At("short", d, first.Now.Add(s.Units(2))); err != nil {
		return err
	}
	if _, err := s.Opens(d, both); err != nil {
		return err
	}
	if d, err = s.Refused("the third", both); err != nil {
		return err
	}
	return s.At("long", d, first.Now.Add(s.Units(10)))
}

func checkNoLimits(s *Subject) error {
	for range 20 {
		if _, err := s.Granted("no limits", limiter.Request{Key: s.Key("c")}); err != nil {
			return err
		}
	}
	return nil
}

func checkInvalid(s *Subject) error {
	a := s.Key("a")
	const per = time.Minute
	for what, r := range map[string]limiter.Request{
		"calls without per":       {Limits: []limiter.Limit{{Key: a, Calls: 1}}},
		"per without calls":       {Limits: []limiter.Limit{{Key: a, Per: per}}},
		"a limit of nothing":      {Limits: []limiter.Limit{{Key: a}}},
		"negative calls":          {Limits: []limiter.Limit{{Key: a, Calls: -1, Per: per}}},
		"negative per":            {Limits: []limiter.Limit{{Key: a, Calls: 1, Per: -per}}},
		"negative places":         {Limits: []limiter.Limit{{Key: a, Concurrent: -1}}, Hold: per},
		"a limit's negative cost": {Limits: []limiter.Limit{{Key: a, Calls: 1, Per: per, Cost: -1}}},
		"negative cost":           {Limits: []limiter.Limit{{Key: a, Calls: 1, Per: per}}, Cost: -1},
		"negative hold":           {Limits: []limiter.Limit{{Key: a, Calls: 1, Per: per}}, Hold: -1},
		"places without hold":     {Limits: []limiter.Limit{{Key: a, Concurrent: 1}}},
		"a window twice":          {Limits: []limiter.Limit{{Key: a, Calls: 1, Per: per}, {Key: a, Calls: 2, Per: per}}},
		"a good limit and a bad":  {Limits: []limiter.Limit{{Key: a, Calls: 1, Per: per}, {Key: s.Key("b")}}},
	} {
		r.Key = s.Key("c")
		d, err := s.Acquire(context.Background(), r)
		if !errors.Is(err, limiter.ErrInvalid) {
			return fmt.Errorf("%s: error is %v, want one that wraps ErrInvalid", what, err)
		}
		if d.Granted {
			return fmt.Errorf("%s: granted", what)
		}
	}
	_, err := s.Granted("after all that", s.By("c", limiter.Limit{Key: a, Calls: 1, Per: per}))
	return err
}
