package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/paceline-proxy/paceline/stub"
)

// stubFlags are what a stub's command line says.
type stubFlags struct {
	listen string
	json   bool
	config stub.Config
	meter  stub.Meter
}

func newStub() *cobra.Command {
	var f stubFlags
	c := &cobra.Command{
		Use:   "stub",
		Short: "Run a stand-in provider with real limits",
		Long: `Run a stand-in for a model provider on this machine. It answers chat completions
and messages, streamed or not, and refuses, tells waits and breaks the way
providers do. Use it to try a client, an SDK's retries or paceline's limits
without a key and without spending anything.

Without --meter and --limit it admits everything. With --limit alone the meter
is a rolling window. It serves until Ctrl-C and then prints what it saw; so does
GET /_stub at any time.`,
		Example: `  paceline stub --limit 15 --per 1m
  paceline stub --meter bucket --limit 15 --per 1m --burst 3 --service 2s
  paceline stub --limit 60 --headers openai --retry-after ms --fault 503:every=20
  paceline stub --meter concurrent --limit 4 --service 10s --listen 127.0.0.1:0 --json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	f.config.RetryAfter, f.config.Headers, f.config.HeadersAt = stub.RetryAfterSeconds, stub.HeadersNone, stub.AtAdmission
	fs := c.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.listen, "listen", "127.0.0.1:8791", "`ADDR` to serve at; port 0 takes a free one")
	fs.Var(&f.meter.Kind, "meter", "how requests are counted")
	fs.IntVar(&f.meter.Limit, "limit", 0, "`N` requests admitted in the span, or at once by a concurrent meter")
	fs.DurationVar(&f.meter.Per, "per", time.Minute, "the span of the limit")
	fs.IntVar(&f.meter.Burst, "burst", 0, "tokens a bucket holds; 0 is the limit")
	fs.IntVar(&f.config.Concurrent, "concurrent", 0, "most requests in service at once, on top of the meter; 0 is any number")
	fs.DurationVar(&f.config.Jitter, "jitter", 0, "longest time a request is on its way to the meter")
	fs.DurationVar(&f.config.Service, "service", 0, "how long an answer takes")
	fs.Var(&f.config.RetryAfter, "retry-after", "how a refusal tells its wait")
	fs.Var(&f.config.Headers, "headers", "whose budget headers to send")
	fs.Var(&f.config.HeadersAt, "headers-at", "the instant these headers speak of")
	fs.BoolVar(&f.config.Penalise, "penalise", false, "count refused requests too")
	fs.Var(&f.config.Faults, "fault", "what goes wrong with admitted requests: reset, cut, silence or a status; may be given again")
	fs.Uint64Var(&f.config.Seed, "seed", 0, "seed of everything drawn at random")
	fs.BoolVar(&f.json, "json", false, "print {\"url\"} as a line of JSON when ready, and the counts as another at the end")
	return c
}

// provider makes the stub that the flags describe.
func (f *stubFlags) provider(c *cobra.Command) (*stub.Stub, error) {
	m := f.meter
	if m.Kind == "" && c.Flags().Changed("limit") {
		m.Kind = stub.Rolling
	}
	for _, flag := range []string{"limit", "concurrent", "burst"} {
		if v, _ := c.Flags().GetInt(flag); c.Flags().Changed(flag) && v < 1 {
			return nil, usagef("--%s is %d: give a number from 1 on", flag, v)
		}
	}
	switch {
	case m.Kind == "" && (c.Flags().Changed("per") || m.Burst > 0):
		return nil, usagef("--per and --burst are of a meter: say how many requests it admits with --limit N")
	case m.Per <= 0:
		return nil, usagef("--per is %v: give a span such as 1s, 1m or 1h", m.Per)
	case m.Kind == stub.Concurrent && c.Flags().Changed("per"):
		return nil, usagef("--per is for meters that count over time, not for a concurrent one")
	case m.Kind != "":
		f.config.Meters = []stub.Meter{m}
	}
	s, err := stub.New(f.config)
	if err != nil {
		return nil, usagef("this provider is impossible: %s", oneLine(err))
	}
	return s, nil
}

// oneLine joins joined errors.
func oneLine(err error) string {
	return strings.ReplaceAll(strings.ReplaceAll(err.Error(), "stub: ", ""), "\n", "; ")
}

// checkAddress finds what no listener could take.
func checkAddress(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return usagef("--listen is %q: give HOST:PORT such as 127.0.0.1:8791, or port 0 for a free one", addr)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return usagef("--listen is %q: the port is a number from 0 to 65535", addr)
	}
	return nil
}

func (f *stubFlags) run(c *cobra.Command) error {
	provider, err := f.provider(c)
	if err != nil {
		return err
	}
	if err := checkAddress(f.listen); err != nil {
		return err
	}
	var config net.ListenConfig
	l, err := config.Listen(c.Context(), "tcp", f.listen)
	if err != nil {
		return fmt.Errorf("cannot serve at %s: %w", f.listen, reason(err))
	}
	s := serve(l, provider)
	defer s.close()
	if err := f.ready(c, s.url); err != nil {
		return err
	}
	select {
	case <-c.Context().Done():
	case err := <-s.failed:
		return fmt.Errorf("serving at %s: %w", f.listen, err)
	}
	s.close()
	return f.report(c, provider.Counts())
}

// reason is why a listener failed, without the address it was told.
func reason(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok && !errors.Is(err, context.Canceled) {
		return op.Err
	}
	return err
}

// ready says where the stub is and how to use it.
func (f *stubFlags) ready(c *cobra.Command, url string) error {
	_, err := fmt.Fprintf(c.ErrOrStderr(), `serving at %s; Ctrl-C ends it. To use it:
  export OPENAI_BASE_URL=%s/v1
  export ANTHROPIC_BASE_URL=%s
`, url, url, url)
	if err == nil && f.json {
		err = json.NewEncoder(c.OutOrStdout()).Encode(map[string]string{"url": url})
	}
	return err
}

// report prints what the stub saw.
func (f *stubFlags) report(c *cobra.Command, n stub.Counts) error {
	if f.json {
		return json.NewEncoder(c.OutOrStdout()).Encode(n)
	}
	_, err := fmt.Fprintf(c.OutOrStdout(), `admitted     %d
refused      %d
peak live    %d
peak window  %d
repeated     %d
early        %d
left         %d
`, n.Admitted, n.Refused, n.PeakLive, n.PeakWindow, n.Repeated, n.Early, n.Left)
	return err
}
