package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/budget"
	"github.com/paceline-proxy/paceline/internal/config"
	"github.com/paceline-proxy/paceline/internal/daemon"
	"github.com/paceline-proxy/paceline/internal/home"
	"github.com/paceline-proxy/paceline/terminal"
)

// waitFlags are what wait is told.
type waitFlags struct {
	model  string
	length time.Duration
	json   bool

	warn func(error) // what it goes by is not all there; said once of each
}

func newWait() *cobra.Command {
	var f waitFlags
	c := &cobra.Command{
		Use:   "wait PROVIDER",
		Short: "Wait until a request to a provider could be sent at once",
		Long: `Wait until a request to a provider could be sent at once: nothing pauses it, nobody
waits in its line, and there is room in its limits. It sends nothing and holds no
place: between this and the request others may come. Of several keys, one with room
is enough.

It asks the running proxy. Without one, or where that has not met the key yet, it
goes by the pauses in the files of the home, and says which of them it cannot read.

Exit codes, beside those of paceline:
  0    a request could be sent now
  5    not within --for`,
		Example: `  paceline wait openai && ./nightly.sh
  paceline wait groq --model llama-3.3-70b --for 10m || echo later
  paceline wait openai --for 0s --json | jq .next_start`,
		Args:              oneProvider,
		ValidArgsFunction: completeProviders,
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("for") && f.length < 0 {
				return usagef("--for is %v: give a time from 0s on, such as 10m", f.length)
			}
			h, err := home.Find()
			if err != nil {
				return err
			}
			if err := knownProvider(c.Context(), args[0]); err != nil {
				return err
			}
			return f.run(c, h, args[0])
		},
	}
	c.Flags().StringVarP(&f.model, "model", "m", "", "wait for `MODEL` alone, where models have limits of their own (default: for all)")
	c.Flags().DurationVar(&f.length, "for", 0, "wait for `TIME` at most, such as 10m; 0s looks once (default: as long as it takes)")
	c.Flags().BoolVar(&f.json, "json", false, "print what was found as JSON")
	return c
}

// knownProvider is an error where a provider is neither declared nor built in.
func knownProvider(ctx context.Context, name string) error {
	if elsewhere() {
		return nil
	}
	at, err := findConfig(ctx, "")
	if err != nil {
		return err
	}
	c, err := config.Load(at.path)
	if err != nil {
		return err
	}
	if _, known, err := c.Provider(name); known || err != nil {
		return err
	}
	return unknownProvider(name, providerNames(c))
}

// A headroom is what wait finds.
type headroom struct {
	Provider string `json:"provider"`
	Model    string `json:"model,omitempty"`
	Headroom bool   `json:"headroom"`
	// NextStart is when a request could be sent at the earliest, where a clock
	// tells.
	NextStart time.Time `json:"next_start,omitzero"`
	Why       string    `json:"why,omitempty"`
	WaitedMs  int64     `json:"waited_ms"`
}

// lookEvery is how often is looked at least: a pause may be ended, and places
// come free.
const lookEvery = time.Second

func (f *waitFlags) run(c *cobra.Command, h home.Home, provider string) error {
	said := make(map[string]bool)
	f.warn = func(err error) {
		if text := err.Error(); !said[text] {
			said[text] = true
			fmt.Fprintf(c.ErrOrStderr(), "paceline: %s: a pause in it is not known; paceline doctor says what to do\n", clean(text))
		}
	}
	ctx, began := c.Context(), time.Now()
	bounded := c.Flags().Changed("for")
	line := terminal.Waits{Timeout: 1 << 62, OwnInterrupts: true} // it asks nothing
	shown := paceline.Wait{ID: "wait", Provider: provider, Since: began}
	erase := func() {
		over := shown
		over.Over = true
		line.Update(&over, nil)
	}
	defer erase()
	for {
		found, err := f.look(ctx, h, provider)
		if err != nil {
			return err
		}
		now := time.Now()
		found.WaitedMs = now.Sub(began).Milliseconds()
		late := bounded && now.Sub(began) >= f.length
		if found.Headroom || late {
			erase()
			return f.report(c, found)
		}
		at := shown
		at.Until, at.Why = found.NextStart, found.Why
		line.Update(&at, nil)
		pause := lookEvery
		if found.NextStart.After(now) {
			pause = min(pause, found.NextStart.Sub(now))
		}
		if bounded {
			pause = min(pause, f.length-now.Sub(began))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(max(pause, 10*time.Millisecond)):
		}
	}
}

func (f *waitFlags) report(c *cobra.Command, found headroom) error {
	if f.json {
		if err := json.NewEncoder(c.OutOrStdout()).Encode(found); err != nil {
			return err
		}
	}
	if found.Headroom {
		return nil
	}
	says := fmt.Errorf("%s has no room yet: %s", found.Provider, clean(found.Why))
	if f.json {
		says = nil
	}
	return coded{exitLimited, says}
}

// look asks the proxy, and the files where that has met none of the keys.
func (f *waitFlags) look(ctx context.Context, h home.Home, provider string) (headroom, error) {
	free := headroom{Provider: provider, Model: f.model, Headroom: true}
	var s status
	err := h.Client().Status(ctx, &s)
	_, none := errors.AsType[*home.NotRunning](err)
	if err != nil && (!none || elsewhere()) {
		return free, err
	}
	mode := s.Mode
	if own := s.Modes[provider]; own != "" {
		mode = own
	}
	if mode == string(paceline.Observe) || mode == string(paceline.Off) {
		return free, nil
	}
	keys := make(map[string]headroom)
	add := func(key string, l headroom) {
		if k, seen := keys[key]; !seen || !l.Headroom && (k.Headroom || l.NextStart.After(k.NextStart)) {
			keys[key] = l
		}
	}
	for _, c := range s.Callers {
		if c.Provider == provider && f.concerns(c.Scope) {
			l := headroom{provider, f.model, c.Free, c.NextStart, c.Binding.What + ": " + c.Binding.Says, 0}
			if c.Binding.What == paceline.BindsClients {
				l.Why = "its limits are used up for now"
			}
			add(c.Credential+"/"+c.Account, l)
		}
	}
	for _, p := range s.Paused {
		if p.Provider == provider && len(keys) == 0 { // else its lines have obeyed
			why := fmt.Sprintf("%s: %s (%s) until %s", paceline.BindsPause, p.Why, budget.Operator, p.Until.Format(time.RFC3339))
			add("", headroom{provider, f.model, false, p.Until, why, 0})
		}
	}
	if len(keys) == 0 && !elsewhere() {
		pauses, damaged, err := daemon.Pauses(ctx, h, provider)
		if err != nil {
			return free, err
		}
		for _, err := range damaged {
			f.warn(err)
		}
		for _, p := range pauses {
			if f.concerns(p.Scope) {
				why := fmt.Sprintf("%s: %s (%s) until %s", paceline.BindsPause, p.Reason, p.Source, p.Until.UTC().Format(time.RFC3339))
				add(p.Account, headroom{provider, f.model, !p.Active(time.Now()), p.Until.UTC(), why, 0})
			}
		}
	}
	return best(keys, free), nil
}

// best is the key that has room, or will first.
func best(keys map[string]headroom, none headroom) headroom {
	found := none
	for _, k := range keys {
		if k.Headroom {
			return none
		}
		if found.Headroom || found.NextStart.IsZero() || !k.NextStart.IsZero() && k.NextStart.Before(found.NextStart) {
			found = k
		}
	}
	return found
}

var dated = regexp.MustCompile(`^[-@]\d`)

// concerns reports whether a line is for the model that is asked for. A scope
// is a model without its date, or what generates nothing.
func (f *waitFlags) concerns(scope string) bool {
	rest, ok := strings.CutPrefix(strings.ToLower(f.model), scope)
	return scope != "~other" && (f.model == "" || scope == "" || ok && (rest == "" || dated.MatchString(rest)))
}
