package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/internal/config"
)

// mostResponse bounds what is read of a response.
const mostResponse = 32 << 20

func newExplain() *cobra.Command {
	var asJSON bool
	var provider string
	var at instant
	c := &cobra.Command{
		Use:   "explain [FILE]",
		Short: "Say how a provider's answer is read, and what follows from it",
		Long: `Take an answer of a provider as curl -i prints it, from FILE or from standard input,
and say what paceline makes of it: its class, the wait it asks for, the budgets it
reports, why it is read so, and what would be done. Nothing is sent.

If it is read wrongly, its output and the answer are what a report needs: take the
keys out first.

Its instants are counted from --at; without it from the answer's own Date, or from
now. JSON is {class, wait_ms, buckets: [{unit, window, limit, remaining, reset_at}],
why}; what the answer does not say is left out.`,
		Example: `  curl -isS https://api.groq.com/openai/v1/chat/completions … | paceline explain --provider groq
  paceline explain --provider anthropic refused.txt
  paceline explain --at 2026-11-29T12:00:00Z --json refused.txt | jq .wait_ms`,
		Args: atMost(1, "one file"),
		RunE: func(c *cobra.Command, args []string) error {
			as, err := speaking(c, provider)
			if err != nil {
				return err
			}
			raw, from, err := readInput(c.InOrStdin(), args)
			if err != nil {
				return err
			}
			res, err := parseResponse(raw)
			if err != nil {
				return fmt.Errorf("%s is no response: %w", from, err)
			}
			res.head.Received = at.or(res.head.Date, time.Now())
			e := explain(as, res)
			if asJSON {
				return json.NewEncoder(c.OutOrStdout()).Encode(e)
			}
			return e.print(c.OutOrStdout())
		},
	}
	c.Flags().StringVar(&provider, "provider", "", "whose answer it is: a `PROVIDER` of the configuration, one built in, or a dialect\n(default: read what everybody means by the same words)")
	c.Flags().Var(&at, "at", "when the answer came (default: its Date, else now)")
	c.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	c.RegisterFlagCompletionFunc("provider", func(c *cobra.Command, _ []string, s string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return completeProviders(c, nil, s)
	})
	return c
}

// speaking is the entry of a provider, with the dialect and the patience that
// it has.
func speaking(c *cobra.Command, name string) (paceline.Provider, error) {
	speaks := dialect.Generic
	if name != "" {
		f, err := findConfig(c.Context(), "")
		if err != nil {
			return paceline.Provider{}, err
		}
		conf, err := config.Load(f.path)
		if err != nil {
			return paceline.Provider{}, err
		}
		if p, ok, err := conf.Provider(name); ok || err != nil {
			return p.Provider, err
		}
		var known bool
		if speaks, known = dialect.ByName(name); !known {
			names := providerNames(conf)
			for _, d := range dialect.All {
				if !slices.Contains(names, d.Name) {
					names = append(names, d.Name)
				}
			}
			return paceline.Provider{}, unknownProvider(name, names)
		}
	}
	return paceline.Provider{Name: "other", BaseURL: "https://localhost", Dialect: speaks.Name}.Complete()
}

// readInput reads a file, or standard input, and says which.
func readInput(stdin io.Reader, args []string) (raw []byte, from string, err error) {
	in, from := stdin, "standard input"
	unread := func(err error) error {
		return fmt.Errorf("%s: cannot be read: %w; name a file with an answer in it, or - for standard input", from, withoutPath(err))
	}
	if len(args) > 0 && args[0] != "-" {
		from = args[0]
		f, err := os.Open(from)
		if err != nil {
			return nil, "", unread(err)
		}
		defer f.Close()
		in = f
	} else if f, ok := stdin.(*os.File); ok && len(args) == 0 && term.IsTerminal(int(f.Fd())) {
		return nil, "", usagef("name a file with an answer in it, or pipe one: curl -isS URL | paceline explain")
	}
	raw, err = io.ReadAll(io.LimitReader(in, mostResponse))
	if err != nil {
		return nil, "", unread(err)
	}
	return raw, from, nil
}

// withoutPath is what went wrong, where the path has been said.
func withoutPath(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err
	}
	return err
}

// An explanation is how an answer is read.
type explanation struct {
	Class   dialect.Class     `json:"class"`
	WaitMs  *int64            `json:"wait_ms,omitempty"`
	Buckets []explainedBucket `json:"buckets"`
	Why     string            `json:"why"`

	response response
	reading  dialect.Reading
	as       paceline.Provider
}

type explainedBucket struct {
	Unit      string    `json:"unit"`
	Window    string    `json:"window"`
	Limit     *int64    `json:"limit,omitempty"`
	Remaining *int64    `json:"remaining,omitempty"`
	ResetAt   time.Time `json:"reset_at,omitzero"`
}

// explain reads a response as an entry's requests would have theirs read.
func explain(as paceline.Provider, res response) explanation {
	d, _ := dialect.ByName(as.Dialect)
	r := d.ReadHead(res.head, res.body)
	e := explanation{Class: r.Class, Buckets: []explainedBucket{}, Why: r.Why, response: res, reading: r, as: as}
	if r.Told {
		e.WaitMs = new(r.Wait.Milliseconds())
	}
	for _, b := range r.Buckets {
		e.Buckets = append(e.Buckets, explainedBucket{b.Unit, b.Window, b.Limit, b.Remaining, b.Recovery.At.UTC()})
	}
	return e
}

// print writes the explanation for people.
func (e explanation) print(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	received := e.response.head.Received
	fmt.Fprintf(w, "status\t%d %s\n", e.response.head.Status, http.StatusText(e.response.head.Status))
	fmt.Fprintf(w, "read as\t%s, at %s\n", e.as.Dialect, received.UTC().Format("2006-01-02 15:04:05 MST"))
	fmt.Fprintf(w, "class\t%s\n", strings.ReplaceAll(string(e.Class), "_", " "))
	wait := "not said"
	if e.reading.Told {
		wait = e.reading.Wait.String()
	}
	if e.Class != dialect.OK {
		fmt.Fprintf(w, "wait\t%s\n", wait)
	}
	fmt.Fprintf(w, "why\t%s\n", clean(e.Why))
	fmt.Fprintf(w, "paceline would\t%s\n", e.consequence())
	if err := w.Flush(); err != nil || len(e.Buckets) == 0 {
		return err
	}
	fmt.Fprintln(w, "\nunit\twindow\tlimit\tremaining\tresets in")
	number := func(n *int64) string {
		if n == nil {
			return "?"
		}
		return fmt.Sprint(*n)
	}
	for _, b := range e.Buckets {
		resets := "?"
		if !b.ResetAt.IsZero() {
			resets = b.ResetAt.Sub(received).String()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", strings.ReplaceAll(b.Unit, "_", " "), b.Window, number(b.Limit), number(b.Remaining), resets)
	}
	return w.Flush()
}

// consequence is what would follow for the request, and for others on its key.
func (e explanation) consequence() string {
	r, retry := e.reading, e.as.Retry
	retry.WaitForCapacity = retry.WaitForCapacity || e.as.WaitForCapacity
	if r.Wait > dialect.MaxWait {
		r.Told, r.Wait = false, 0 // a mistake, or an epoch
	}
	told := r.Told && r.Wait > 0
	patient := retry.Patience() < 0 || r.Wait <= retry.Patience()
	switch r.Class {
	case dialect.OK:
		return "hand it to its caller"
	case dialect.Rejected:
		return "hand it back: the request itself is refused, and nothing is waited for"
	case dialect.Billing:
		return "hand it back, and try the key again once a minute: no clock helps"
	case dialect.Unavailable:
		return fmt.Sprintf("send it again after %v, at most %s, if it may be repeated", retry.Base, times(retry.Max5xx))
	case dialect.Overloaded:
		switch {
		case r.Wait > retry.Overload:
			return fmt.Sprintf("hand it back, since %v is more than retry.overloadMs (%v), and keep the key closed until then", r.Wait, retry.Overload)
		case told:
			return fmt.Sprintf("keep the key closed for %v, then send it again, for %v at most", r.Wait, retry.Overload)
		}
		return fmt.Sprintf("send it again after 1s, then 2s and so on, for %v at most", retry.Overload)
	case dialect.QuotaExhausted:
		waits := e.as.Quota == paceline.QuotaWait || retry.WaitForCapacity
		switch {
		case told && (patient || waits):
			return fmt.Sprintf("keep the key closed for %v, then send it again", r.Wait)
		case waits:
			return fmt.Sprintf("keep the key closed for %v, longer with each refusal, then send it again", retry.Base)
		case told:
			return fmt.Sprintf("hand it back, since %v is more than retry.maxWaitMs (%v) and quota: wait is not set, and keep the key closed until then", r.Wait, retry.Patience())
		}
		return fmt.Sprintf("hand it back, since nobody says when there is more, and keep the key closed for %v, longer with each refusal", retry.Base)
	}
	switch {
	case r.TooLarge:
		return "hand it back at once: it is larger than the limit, and waiting cannot help"
	case r.Concurrent && !told:
		return fmt.Sprintf("send it again when another request on the key ends, or after %v, at most %s, and keep fewer under way", retry.Base, times(retry.Max))
	case told && !patient:
		return fmt.Sprintf("hand it back, since %v is more than retry.maxWaitMs (%v), and keep the key closed until then", r.Wait, retry.Patience())
	case told:
		return fmt.Sprintf("keep the key closed for %v, then send it again, at most %s", r.Wait, times(retry.Max))
	}
	return fmt.Sprintf("keep the key closed for %v, longer with each refusal, then send it again, at most %s", retry.Base, times(retry.Max))
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", max(0, n))
}

// An instant is a flag for one.
type instant struct{ time.Time }

func (i *instant) String() string {
	if i.IsZero() {
		return ""
	}
	return i.Format(time.RFC3339Nano)
}

// Set takes RFC 3339.
func (i *instant) Set(s string) (err error) {
	if i.Time, err = time.Parse(time.RFC3339, s); err != nil {
		return errors.New("give an instant such as 2026-11-29T12:00:00Z")
	}
	return nil
}

// Type is what help calls it.
func (i *instant) Type() string { return "INSTANT" }

// or is the instant, or the first other that is one.
func (i *instant) or(others ...time.Time) time.Time {
	for _, t := range append([]time.Time{i.Time}, others...) {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}
