package stub_test

import (
	"encoding"
	"flag"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/stub"
)

func TestBadConfigsAreRefusedWhole(t *testing.T) {
	for _, test := range []struct {
		config stub.Config
		want   []string
	}{
		{stub.Config{Meters: []stub.Meter{{Kind: "leaky", Limit: 1}}}, []string{`meter 1: kind: unknown word "leaky": use rolling, fixed, bucket, concurrent`}},
		{stub.Config{Meters: []stub.Meter{{Kind: "leaky", Burst: 1}}}, []string{"unknown word"}},
		{stub.Config{Meters: []stub.Meter{{Kind: stub.Concurrent}}, Concurrent: -1}, []string{"concurrent is -1"}},
		{stub.Config{Service: -time.Second}, []string{"service is -1s; it must not be negative"}},
		{stub.Config{Service: math.MaxInt64, ServiceSpread: -1}, []string{"service spread is -1ns"}},
		{stub.Config{Faults: stub.Faults{{Kind: "boom", Status: 500}}}, []string{"unknown word"}},
		{stub.Config{Meters: []stub.Meter{{}, {Kind: stub.Rolling, Limit: -1}}}, []string{"meter 2: limit is -1"}},
		{stub.Config{Meters: []stub.Meter{{Kind: stub.Fixed}}}, []string{"a fixed meter needs a limit of at least 1"}},
		{stub.Config{Meters: []stub.Meter{{Kind: stub.Concurrent}}}, []string{"a concurrent meter needs a limit of at least 1"}},
		{stub.Config{Meters: []stub.Meter{{Limit: 3}}}, []string{"a limit of 3 without a kind"}},
		{stub.Config{Meters: []stub.Meter{{Kind: stub.Bucket, Limit: 1, Per: -1, Burst: -2}}}, []string{"per is -1ns", "burst is -2"}},
		{stub.Config{Meters: []stub.Meter{{Kind: stub.Rolling, Limit: 1, Burst: 2}}}, []string{"burst is for a bucket only"}},
		{stub.Config{Meters: []stub.Meter{{Kind: stub.Bucket, Limit: 1, Per: math.MaxInt64, Burst: math.MaxInt}}}, []string{"more than can be metered exactly"}},
		{stub.Config{Concurrent: -1, Jitter: -time.Second, Service: -1, ServiceSpread: -1, Ping: -1, Window: -1}, []string{"concurrent is -1", "jitter is -1s", "service is -1ns", "service spread", "ping is -1ns", "window"}},
		{stub.Config{Service: math.MaxInt64, ServiceSpread: 1}, []string{"too long"}},
		{stub.Config{RetryAfter: "iso", Headers: "parrot", HeadersAt: "noon"}, []string{
			`retry-after: unknown word "iso": use seconds, decimal, ms, date, zero, none`,
			`headers: unknown word "parrot": use none, openai, anthropic`,
			`headers-at: unknown word "noon": use admission, head`,
		}},
		{stub.Config{Faults: stub.Faults{{}, {Kind: stub.FaultStatus, Status: 200}, {Kind: stub.FaultCut, Status: 500}, {Kind: stub.FaultCut, Every: 1, P: math.NaN()}, {Kind: stub.FaultReset, Every: 2, First: 3}, {Kind: stub.FaultReset, Every: -1}}}, []string{
			`fault 1: unknown word "": use reset, cut, silence, error, late-error, status`, "fault 2: status is 200", "fault 3: a cut has no status", "fault 4: p is NaN", "fault 5: use one of", "fault 6: every and first",
		}},
		{stub.Config{Script: []stub.Step{{Status: 42}, {Wait: time.Second}, {Status: 429, Wait: -1, RetryAfter: "x"}, {Status: 500, Fault: stub.FaultCut}, {Fault: stub.FaultStatus}, {Status: 200}}}, []string{
			"script step 1: status is 42", "script step 2: a wait, a header or a body needs a status", "script step 3: wait is -1ns", `unknown word "x"`, "script step 4: a status and a fault", "script step 5: fault", "script step 6: a status of 200 needs a body",
		}},
	} {
		s, err := stub.New(test.config)
		if err == nil || s != nil {
			t.Errorf("%+v was taken", test.config)
			continue
		}
		for _, want := range test.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: no word of %q in\n%v", test.config, want, err)
			}
		}
		if got := strings.Count(err.Error(), "\n") + 1; got != len(test.want) {
			t.Errorf("%d faults for %d: %v", got, len(test.want), err)
		}
	}
}

func TestConfigBelongsToItsStub(t *testing.T) {
	c := stub.Config{Script: []stub.Step{{Status: 500}}}
	s := mustStub(t, c)
	c.Script[0].Status = 503
	expect(t, s, "500")
}

func TestFlagValues(t *testing.T) {
	var c stub.Config
	var kind stub.MeterKind
	flags := flag.NewFlagSet("stub", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Var(&kind, "meter", "")
	flags.Var(&c.RetryAfter, "retry-after", "")
	flags.Var(&c.Headers, "headers", "")
	flags.Var(&c.HeadersAt, "headers-at", "")
	flags.Var(&c.Faults, "fault", "")
	err := flags.Parse(strings.Fields("--meter bucket --retry-after MS --headers openai --headers-at head --fault reset:every=10 --fault 503:first=2 --fault cut:p=0.05 --fault silence"))
	if err != nil {
		t.Fatal(err)
	}
	if kind != stub.Bucket || c.RetryAfter != stub.RetryAfterMS || c.Headers != stub.HeadersOpenAI || c.HeadersAt != stub.AtHead {
		t.Errorf("%q %+v", kind, c)
	}
	if got, want := c.Faults.String(), "reset:every=10,503:first=2,cut:p=0.05,silence"; got != want {
		t.Errorf("faults %s, want %s", got, want)
	}
	if _, err := stub.New(c); err != nil {
		t.Error(err)
	}
	for _, v := range []interface {
		flag.Value
		Type() string
	}{&kind, &c.RetryAfter, &c.Headers, &c.HeadersAt, &c.Faults} {
		if err := v.Set("nonsense"); err == nil || !strings.Contains(err.Error(), `"nonsense"`) || !strings.Contains(err.Error(), "use ") {
			t.Errorf("%T: %v", v, err)
		}
		if v.Type() == "" {
			t.Errorf("%T has no type", v)
		}
	}
	for _, v := range []encoding.TextUnmarshaler{&kind, &c.RetryAfter, &c.Headers, &c.HeadersAt, &c.Faults[0]} {
		if err := v.UnmarshalText([]byte("nonsense")); err == nil {
			t.Errorf("%T takes nonsense", v)
		}
	}
	if err := kind.UnmarshalText([]byte(" Rolling ")); err != nil || kind != stub.Rolling {
		t.Error(kind, err)
	}
}

func TestBadFaultTexts(t *testing.T) {
	for _, text := range []string{
		"", "status", "reset:", "reset:every", "reset:every=0", "reset:every=x", "reset:first=-1", "reset:p=2", "reset:p=0",
		"reset:p=NaN", "reset:often=1", "200", "600", "-1", "reset:every=2:first=3", "boom",
	} {
		if f, err := stub.ParseFault(text); err == nil || !strings.Contains(err.Error(), "KIND:every=K") {
			t.Errorf("%q: %+v, %v", text, f, err)
		}
	}
}
