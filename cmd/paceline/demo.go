package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/paceline-proxy/paceline/internal/demo"
	"github.com/paceline-proxy/paceline/stub"
)

func newDemo() *cobra.Command {
	var (
		asJSON   bool
		duration time.Duration
		seed     uint64
	)
	c := &cobra.Command{
		Use:   "demo",
		Short: "See what pacing does, in 45 seconds",
		Long: `See what pacing does. Two stand-in providers run on this machine, each with a
limit of 15 requests a minute kept as a bucket of three tokens: a request takes
one, and one comes back every four seconds. In front of each, paceline is told
that limit and has the same tasks: on the left it sends as fast as the limit
allows (burst), on the right evenly, which is its default. Nothing else differs:
neither side lowers its rate after a refusal. Nothing is simulated or sped up,
and nothing leaves this machine. On a terminal that is too small to show both
sides, lines say how it goes on.

At the end it prints the statistics of both sides and a plot. Ctrl-C ends it
early, with what was seen so far.`,
		Example: `  paceline demo
  paceline demo --duration 20s
  paceline demo --json | jq '.burst.r429, .even.r429'`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if duration < time.Second || duration > time.Hour {
				return usagef("--duration is %v: give one from 1s to 1h", duration)
			}
			r, err := runDemo(c, duration, seed)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(c.OutOrStdout()).Encode(demo.TotalsOf(r))
			}
			width := demo.Width
			if at, ok := screen(c.OutOrStdout()); ok {
				width = at.columns
			}
			return demo.WriteReport(c.OutOrStdout(), r, width, colored(c.OutOrStdout()))
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the totals of both sides as JSON")
	c.Flags().DurationVar(&duration, "duration", demo.Duration, "how long it takes")
	c.Flags().Uint64Var(&seed, "seed", 1, "seed of how long each request is on its way")
	return c
}

// runDemo runs the demo on two sockets and shows how it goes on.
func runDemo(c *cobra.Command, d time.Duration, seed uint64) (demo.Result, error) {
	var lanes []*demo.Lane
	for _, side := range []demo.Pacing{demo.Burst, demo.Even} {
		provider, err := stub.New(demo.Provider(seed))
		if err != nil {
			return demo.Result{}, err
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return demo.Result{}, fmt.Errorf("opening a socket on this machine: %w", reason(err))
		}
		s := serve(l, provider)
		defer s.close()
		way := &http.Transport{MaxIdleConnsPerHost: demo.Clients}
		defer way.CloseIdleConnections()
		lanes = append(lanes, demo.NewLane(side, s.url+"/v1", way))
	}
	r := demo.Begin(c.Context(), d, lanes[0], lanes[1])
	watch(c.ErrOrStderr(), r)
	return r.Result(), nil
}
