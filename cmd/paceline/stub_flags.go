package main

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/paceline-proxy/paceline/stub"
)

// stubFlags are what a stub's command line says.
type stubFlags struct {
	listen string
	json   bool
	config stub.Config
	meter  stub.Meter
	tokens [3]tokens // per minute: of both kinds, of prompts, of answers
}

// define adds the flags to fs.
func (f *stubFlags) define(fs *pflag.FlagSet) {
	f.config.RetryAfter, f.config.Headers, f.config.HeadersAt = stub.RetryAfterSeconds, stub.HeadersNone, stub.AtAdmission
	fs.SortFlags = false
	fs.StringVar(&f.listen, "listen", "127.0.0.1:8791", "`ADDR` to serve at; port 0 takes a free one")
	fs.Var(&f.meter.Kind, "meter", "how requests are counted")
	fs.IntVar(&f.meter.Limit, "limit", 0, "`N` requests admitted in the span, or at once by a concurrent meter; from 1 on")
	fs.DurationVar(&f.meter.Per, "per", time.Minute, "the span of the limit")
	fs.IntVar(&f.meter.Burst, "burst", 0, "tokens a bucket holds; 0 is the limit")
	fs.Var(&f.tokens[0], "tokens", "`N` tokens of prompts and answers a minute, such as 40k, on top of the meter; 0 is any number")
	fs.Var(&f.tokens[1], "input-tokens", "`N` tokens of prompts a minute")
	fs.Var(&f.tokens[2], "output-tokens", "`N` tokens of answers a minute")
	fs.Var(&f.config.Charge, "charge", "how a request counts in tokens: input and output as produced, without cached input, with max_tokens reserved until the end, or kept, or by a rule that no client can know (default produced)")
	fs.Var(&f.config.Other, "other", "another client that spends from the same meters, in bursts, such as 40%/20s")
	fs.IntVar(&f.config.Concurrent, "concurrent", 0, "most requests in service at once, on top of the meter; 0 is any number")
	fs.DurationVar(&f.config.Jitter, "jitter", 0, "longest time a request is on its way to the meter")
	fs.DurationVar(&f.config.Service, "service", 0, "how long an answer takes")
	fs.Var(&f.config.RetryAfter, "retry-after", "how a refusal tells its wait")
	fs.Var(&f.config.Headers, "headers", "whose budget headers to send: "+stub.HeadersWords())
	fs.Var(&f.config.Refusals, "refusals", "whose way of refusing to have: a provider as in --headers, or "+stub.RefusalsWords()+" (default that of --headers)")
	fs.Var(&f.config.HeadersAt, "headers-at", "the instant these headers speak of")
	fs.BoolVar(&f.config.Penalise, "penalise", false, "count refused requests too")
	fs.Var(&f.config.Faults, "fault", "what goes wrong with admitted requests: reset, cut, silence, error (in a 200), late-error (in mid-stream) or a status; may be given again")
	fs.DurationVar(&f.config.Ping, "ping", 0, "how long a streamed answer is silent before it sends a ping; 0 is never")
	fs.BoolVar(&f.config.TrackRepeats, "track-repeats", false, "count answers made twice by the bodies of their requests, for clients that name none")
	fs.Uint64Var(&f.config.Seed, "seed", 0, "seed of everything drawn at random")
	fs.BoolVar(&f.json, "json", false, "print {\"url\"} as a line of JSON when ready, and the counts as another at the end")
}

// provider makes the stub that the flags describe. given says which of them
// were on the command line.
func (f *stubFlags) provider(given func(flag string) bool) (*stub.Stub, error) {
	if f.meter.Kind == "" && given("limit") {
		f.meter.Kind = stub.Rolling
	}
	if faults := f.faults(given); len(faults) > 0 {
		return nil, usagef("%s", strings.Join(faults, "; "))
	}
	config := f.config
	if f.meter.Kind != "" {
		config.Meters = []stub.Meter{f.meter}
	}
	for i, unit := range []stub.Unit{stub.Tokens, stub.InputTokens, stub.OutputTokens} {
		if n := f.tokens[i]; n > 0 {
			config.Meters = append(config.Meters, stub.Meter{Kind: stub.Bucket, Unit: unit, Limit: int(n), Per: time.Minute})
		}
	}
	s, err := stub.New(config)
	if err != nil {
		// What is left is numbers that are each possible, and not together.
		why := strings.NewReplacer("stub: ", "", "meter 1: ", "", "\n", "; ").Replace(err.Error())
		return nil, usagef("--limit, --per and --burst do not go together: %s: give smaller ones", why)
	}
	return s, nil
}

// faults are what is wrong with the flags: of each the first thing, with what
// to give instead.
func (f *stubFlags) faults(given func(flag string) bool) (faults []string) {
	bad := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	m := f.meter
	switch {
	case given("limit") && m.Limit < 1:
		bad("--limit is %d: give a number from 1 on, or leave it out", m.Limit)
	case m.Kind == stub.Concurrent && m.Limit == 0 && f.config.Concurrent == 0:
		bad("--meter %s needs a limit: give --limit N, the requests in service at once", m.Kind)
	case m.Kind != "" && m.Kind != stub.Concurrent && m.Limit == 0:
		bad("--meter %s needs a limit: give --limit N, the requests admitted in the span of --per", m.Kind)
	}
	switch {
	case m.Per <= 0:
		bad("--per is %v: give a span such as 1s, 1m or 1h", m.Per)
	case given("per") && m.Kind == "":
		bad("--per is the span of a limit: give --limit N too")
	case given("per") && m.Kind == stub.Concurrent:
		bad("--per is for meters that count over time, not for --meter %s: leave it out", m.Kind)
	}
	switch {
	case m.Burst < 0:
		bad("--burst is %d: give a number from 1 on, or 0 for as many as --limit", m.Burst)
	case m.Burst > 0 && m.Kind == "":
		bad("--burst is what a bucket holds: give --meter %s and --limit N too", stub.Bucket)
	case m.Burst > 0 && m.Kind != stub.Bucket:
		bad("--burst is what a bucket holds: give --meter %s, or leave it out", stub.Bucket)
	}
	if n := f.config.Concurrent; n < 0 {
		bad("--concurrent is %d: give a number from 1 on, or 0 for any number", n)
	}
	for i, flag := range []string{"tokens", "input-tokens", "output-tokens"} {
		if n := f.tokens[i]; n < 0 {
			bad("--%s is %d: give a number from 1 on, or 0 for any number", flag, int(n))
		}
	}
	counted := f.tokens[0]+f.tokens[1]+f.tokens[2] > 0
	if given("charge") && !counted {
		bad("--charge is for meters of tokens: give --tokens N, --input-tokens N or --output-tokens N too")
	}
	if given("other") && !counted && (m.Kind == "" || m.Kind == stub.Concurrent) {
		bad("--other spends from meters that count over time: give --limit N or --tokens N too")
	}
	for _, d := range []struct {
		flag string
		is   time.Duration
	}{{"jitter", f.config.Jitter}, {"service", f.config.Service}, {"ping", f.config.Ping}} {
		if d.is < 0 {
			bad("--%s is %v: give 0s or a longer time, such as 300ms", d.flag, d.is)
		}
	}
	return faults
}

// tokens is a number of tokens, with k and M as in the configuration.
type tokens int

var tokensForm = regexp.MustCompile(`^(-?[0-9]+)(\.[0-9]+)?([kM]?)$`)

// Set reads a number from text.
func (n *tokens) Set(text string) error {
	m := tokensForm.FindStringSubmatch(text)
	unit := map[string]float64{"": 1, "k": 1e3, "M": 1e6}
	if m != nil {
		f, err := strconv.ParseFloat(m[1]+m[2], 64)
		if f *= unit[m[3]]; err == nil && f <= 1<<40 && f == math.Round(f) {
			*n = tokens(f)
			return nil
		}
	}
	return errors.New("give a whole number such as 40000, 40k or 1.5M, or 0 for any number")
}

func (n *tokens) String() string { return strconv.Itoa(int(*n)) }

// Type names the value in a command's help.
func (n *tokens) Type() string { return "N" }
