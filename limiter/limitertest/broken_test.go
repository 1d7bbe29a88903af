package limitertest

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/paceline-proxy/paceline/limiter"
)

// Each fault, and a case that names the rule it breaks.
var faults = map[string]string{
	"":                                    "",
	"token bucket":                        "burst then steady",
	"fixed window":                        "around a boundary",
	"fixed window by the clock":           "around a boundary",
	"spends on refusal":                   "refusal spends nothing",
	"books what had room":                 "refusal spends nothing",
	"early retryAt":                       "retryAt of a full window",
	"late retryAt":                        "retryAt of a full window",
	"opens a little early":                "room opens at retryAt",
	"opens a little late":                 "room opens at retryAt",
	"leaves together":                     "a grant leaves by itself",
	"asking postpones":                    "asking does not postpone",
	"reserves":                            "retryAt is no reservation",
	"release gives back the call":         "release does not give back the call",
	"release frees twice":                 "release is harmless when repeated",
	"unknown permits are errors":          "release is harmless when repeated",
	"release frees nothing":               "release frees a place at once",
	"release frees the first place only":  "release frees every place of the permit",
	"never lapses":                        "a permit lapses",
	"lapses early":                        "a permit lapses",
	"places of the last to lapse":         "retryAt of places",
	"one place more":                      "places refuse at their number",
	"repeats permits":                     "places refuse at their number",
	"permits for nothing":                 "hold without places",
	"does not renew":                      "renewal",
	"renews the first place only":         "renewal",
	"renews the dead":                     "renewal",
	"latest throttle stands":              "later throttle wins",
	"past throttle opens":                 "past throttle does nothing",
	"past throttle closes":                "past throttle does nothing",
	"throttles everybody":                 "throttle leaves other keys open",
	"throttles a bucket":                  "throttle closes a key",
	"throttle ends early":                 "retryAt of a throttle",
	"throttle without end wraps":          "throttle without end",
	"throttle revokes":                    "throttle leaves permits held",
	"spends when throttled":               "throttled refusal spends nothing",
	"soonest retryAt":                     "the latest retryAt stands",
	"ignores cost":                        "cost counts",
	"takes a missing cost for none":       "cost left out is one",
	"ignores a limit's cost":              "a limit has its own cost",
	"overflows":                           "cost is a number",
	"waits for an empty window":           "several must leave",
	"refuses what can never fit":          "cost above calls waits for an empty window",
	"lets the oversized in at once":       "cost above calls waits for an empty window",
	"oversized counts in full":            "cost above calls counts as calls",
	"blocks":                              "no method blocks",
	"history by span":                     "a longer window remembers",
	"counts in a race":                    "a crowd does not overshoot",
	"counts by caller":                    "callers share a bucket",
	"one bucket for all":                  "buckets are independent",
	"folds keys":                          "buckets are independent",
	"keeps the first numbers":             "numbers of the request at hand",
	"looks at the first limit only":       "one of several full",
	"counts in the first limit only":      "grant counts everywhere",
	"takes impossible requests":           "impossible requests",
	"wants limits":                        "no limits",
	"spans of a minute at most":           "extreme numbers",
	"opens nothing":                       "opening ends a throttle",
	"opens everybody":                     "opening ends a throttle",
	"opened stays open":                   "opening ends a throttle",
	"peeks at what has left":              "peeking says what is counted",
	"peeks at no throttle":                "peeking says what is counted",
	"peeks at calls, not at cost":         "peeking says what is counted",
	"peeking counts":                      "peeking counts nothing",
	"seeds nothing":                       "seeding counts an earlier call",
	"seeds as of now":                     "seeding counts an earlier call",
	"seeds what is to come later":         "seeding counts an earlier call",
	"settles nothing":                     "settling less makes room at once",
	"settles as of now":                   "settling less makes room at once",
	"settles as of the grant":             "settling more counts from then on",
	"settles on top":                      "settling is of totals",
	"settles in full":                     "settling more than calls counts as calls",
	"settles nobody's calls":              "settling concerns its own call",
	"settles a negative total":            "settling concerns its own call",
	"settles the dead":                    "settling ends with the permit",
	"batches are answered backwards":      "a batch is answered in order",
	"batches are judged at once":          "a batch is answered in order",
	"a batch goes on":                     "a batch goes no further than its first refusal",
	"a batch stops for everybody":         "a batch goes no further than its first refusal",
	"a batch has one permit":              "a batch holds a place each",
	"batch counts before it fails":        "an impossible request fails its batch",
	"throttles a batch by its first key":  "a throttle refuses its key in a batch",
	"loses updates":                       "a crowd of updates loses none",
	"a blob ends its namesake's throttle": "blobs are kept",
	"hosts count apart":                   "hosts share counts",
	"hosts disagree":                      "hosts agree on instants",
	"places end with their host":          "hosts share places",
	"hosts throttle apart":                "hosts share throttles",
	"hosts keep blobs apart":              "hosts share blobs",
	"close closes nothing":                "closed and opened again",
	"close closes the store":              "closed and opened again",
	"restart forgets settling":            "a restart forgets no settling",
	"restart forgets windows":             "a restart forgets nothing",
	"restart forgets places":              "a restart forgets nothing",
	"restart forgets throttles":           "a restart forgets nothing",
	"restart begins windows anew":         "a restart forgets nothing",
}

// verdicts runs every case against a fault and says which it fails.
func verdicts(t *testing.T, fault string) map[string]error {
	found := map[string]error{}
	for _, c := range Cases {
		synctest.Test(t, func(t *testing.T) {
			s := Harness{Bubble: true}.subject(newSuspect(fault), c.Name)
			s.reopen = func(l limiter.Limiter) limiter.Limiter { return l.(*suspect).restart() }
			s.host = func(l limiter.Limiter) limiter.Limiter { return l.(*suspect).host() }
			if err := c.Check(s); err != nil {
				found[c.Name] = err
			}
		})
	}
	return found
}

// A kit that passes everything proves nothing: each promise, once broken, fails
// the case that names it, and each case can fail.
func TestKitFindsFaults(t *testing.T) {
	failed := map[string][]string{}
	for fault, want := range faults {
		t.Run(fault, func(t *testing.T) {
			found := verdicts(t, fault)
			for name := range found {
				failed[name] = append(failed[name], fault)
			}
			if fault == "" {
				for name, err := range found {
					t.Errorf("the contract kept, yet %q fails: %v", name, err)
				}
				return
			}
			if found[want] == nil {
				t.Errorf("passes %q, fails only %d: %v", want, len(found), found)
			}
			t.Logf("%s: %v", want, found[want])
		})
	}
	for _, c := range Cases {
		if len(failed[c.Name]) == 0 {
			t.Errorf("no fault fails %q", c.Name)
		}
	}
}

// Every statement that one process can prove is named by a case (L-119).
func TestStatementsAreNamed(t *testing.T) {
	var named []string
	for _, c := range Cases {
		if c.Why == "" {
			t.Errorf("%q does not say why", c.Name)
		}
		named = append(named, c.IDs...)
	}
	for i := range 28 {
		if id := numbered("CC", i+1); !slices.Contains(named, id) {
			t.Errorf("no case names %s", id)
		}
	}
	// Composing keys is the business of whoever asks: 44 and 83.
	for i := 37; i <= 87; i++ {
		if id := numbered("L", i); i != 44 && i != 83 && !slices.Contains(named, id) {
			t.Errorf("no case names %s", id)
		}
	}
}

func numbered(letter string, n int) string { return fmt.Sprintf("%s-%02d", letter, n) }
