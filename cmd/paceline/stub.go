package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/paceline-proxy/paceline/stub"
)

func newStub() *cobra.Command {
	var f stubFlags
	c := &cobra.Command{
		Use:   "stub",
		Short: "Run a stand-in provider with real limits",
		Long: `Run a stand-in for a model provider on this machine. It answers chat completions,
responses, messages and embeddings, streamed or not, and the own APIs of Gemini,
Cohere and Ollama. It refuses, tells waits and breaks the way providers do. Use
it to try a client, an SDK's retries or paceline's limits without a key and
without spending anything.

Without --meter and --limit it admits everything. With --limit alone the meter
is a rolling window. What a request costs in tokens is guessed from its length,
or said by it: X-Stub-Usage: input=100000 cached=95000 output=800.

It serves until Ctrl-C and then prints what it saw; so does GET /_stub at any
time.`,
		Example: `  paceline stub --limit 15 --per 1m
  paceline stub --meter bucket --limit 15 --per 1m --burst 3 --service 2s
  paceline stub --limit 60 --headers openai --retry-after ms --fault 503:every=20
  paceline stub --limit 50 --tokens 40k --charge uncached --headers anthropic
  paceline stub --limit 10 --refusals gemini
  paceline stub --meter concurrent --limit 4 --refusals queue-full
  paceline stub --limit 60 --headers openai --other 40%/20s
  paceline stub --meter concurrent --limit 4 --service 10s --listen 127.0.0.1:0 --json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	f.define(c.Flags())
	return c
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
	provider, err := f.provider(c.Flags().Changed)
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
other        %d
`, n.Admitted, n.Refused, n.PeakLive, n.PeakWindow, n.Repeated, n.Early, n.Left, n.Other)
	return err
}
