package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/paceline-proxy/paceline/internal/config"
	"github.com/paceline-proxy/paceline/internal/home"
	"github.com/paceline-proxy/paceline/terminal"
	"github.com/spf13/cobra"
)

// The exit codes of run and wait, beside those of every command.
const (
	exitCanceled = 4
	exitLimited  = 5
)

// runFlags are what run is told.
type runFlags struct {
	callerFlags
	question
	provider, data, path string
	json, anyhow         bool // anyhow: wait for capacity
	retries              int
	retryCut             bool
}

func newRun() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run [flags] PROMPT...",
		Short: "Ask a model one question, through the proxy",
		Long: `Make one request through the proxy of this home, which is started if none runs, and
print the answer. The prompt is the arguments, of which - stands for standard
input; without any it is standard input. With --data it is any request, and the
answer is printed as it comes.

The provider is --provider, else what stands before a slash in the model, else
anthropic for models that begin with claude, else openai (defaultProvider). Its key
is the one in paceline.yaml, else the one in its usual variable: OPENAI_API_KEY,
ANTHROPIC_API_KEY and so on.

On a terminal a wait is shown after a second. After ten seconds, or when you press
Ctrl-C, you are asked whether to go on waiting or to cancel (exit code 4); and where
only what the provider reported to be left holds the request up, whether to send it
all the same. Ctrl-C at that question ends the command (exit code 130). wait: in
paceline.yaml has these times.

Without a terminal nobody is asked. Limits, and what a provider states, are waited
for to their end; only where nothing but what the provider reported to be left holds
the request up is it sent all the same after those ten seconds.

Exit codes, beside those of paceline:
  0    answered
  1    the provider answered with an error, or nobody did
  4    cancelled while it waited; nothing was sent
  5    refused for a limit, and not waited for any longer: try again later`,
		Example: `  paceline run --model gpt-5-mini "Name three rivers."
  paceline run --model claude-sonnet-4-5 "Summarize:" - < notes.txt
  paceline run --provider groq --model llama-3.3-70b --json "Say hi." | jq .usage
  paceline run --provider openai --path /v1/embeddings -d @body.json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args) },
	}
	f.define(c)
	flags := c.Flags()
	flags.StringVarP(&f.Model, "model", "m", "", "ask `MODEL`, or PROVIDER/MODEL")
	flags.StringVarP(&f.provider, "provider", "p", "", "ask `NAME`: a provider of docs/providers.md, or of paceline.yaml")
	flags.StringVarP(&f.System, "system", "s", "", "say `TEXT` before the prompt: what the model is to be")
	flags.IntVar(&f.MaxTokens, "max-tokens", 0, "answer with at most `N` tokens (default: as the provider does; 4096 where it asks for a number)")
	flags.BoolVar(&f.Stream, "stream", false, "print the answer as it is written (default: on a terminal)")
	flags.BoolVar(&f.json, "json", false, "print the answer as the provider wrote it")
	flags.StringVarP(&f.data, "data", "d", "", "send `JSON`, or @FILE, or @- for standard input, and no prompt")
	flags.StringVar(&f.path, "path", "", "send it to `PATH` of the provider (default: where its models are asked)")
	flags.BoolVar(&f.anyhow, "wait-for-capacity", false, "wait for any pause, however long, and be refused for no limit")
	flags.IntVar(&f.retries, "retries", 0, "ask up to `N` times more after what the proxy does not repeat any longer: limits, server errors, a lost proxy")
	flags.BoolVar(&f.retryCut, "retry-cut", false, "ask once more, for twice the tokens, where the answer is cut for being too long")
	return c
}

// A request is what run sends, until it is answered.
type request struct {
	*runFlags
	c        *cobra.Command
	home     home.Home
	config   *config.Config
	provider config.Provider
	api      api
	header   http.Header
	path     string
	keyFrom  string
	waits    *terminal.Waits
	asked    bool // the proxy was asked before
}

func (f *runFlags) run(c *cobra.Command, args []string) error {
	if err := f.check(c, args); err != nil {
		return err
	}
	h, err := home.Find()
	if err != nil {
		return err
	}
	r := &request{runFlags: f, c: c, home: h}
	if err := r.configure(c.Context()); err != nil {
		return err
	}
	body, err := f.body(c, args, r.api)
	if err != nil {
		return err
	}
	return r.ask(body)
}

// check says what is impossible about a command line.
func (f *runFlags) check(c *cobra.Command, args []string) error {
	given := c.Flags().Changed
	switch {
	case f.Model == "" && !given("data"):
		says := "run needs a model: paceline run --model MODEL PROMPT"
		if c.ArgsLenAtDash() == 0 || len(args) > 0 {
			says += "; to run a command through the proxy: paceline exec -- " + strings.Join(args, " ")
		}
		return usagef("%s", says)
	case given("data") && (len(args) > 0 || given("system") || given("max-tokens") || given("model") || given("stream") || f.retryCut):
		return usagef("--data is the whole request: leave out the prompt, --model, --system, --max-tokens, --stream and --retry-cut")
	case given("path") && !strings.HasPrefix(f.path, "/"):
		return usagef("--path is %q: give a path that begins with a slash, such as /v1/chat/completions", f.path)
	case f.MaxTokens < 0 || given("max-tokens") && f.MaxTokens == 0:
		return usagef("--max-tokens is %d: give a number from 1 on", f.MaxTokens)
	case f.retries < 0:
		return usagef("--retries is %d: give a number from 0 on", f.retries)
	case f.retryCut && (f.Stream || f.json):
		return usagef("--retry-cut looks at an answer before it is printed: leave out --stream and --json")
	case f.retryCut && f.MaxTokens == 0:
		return usagef("--retry-cut asks for twice the tokens: give --max-tokens N too")
	}
	if !given("stream") {
		_, there := screen(c.OutOrStdout())
		f.Stream = there && !f.json && !f.retryCut
	}
	return nil
}

// body is what is sent: what --data says, or the prompt in the form of an API.
func (f *runFlags) body(c *cobra.Command, args []string, a api) ([]byte, error) {
	if c.Flags().Changed("data") {
		return f.dataOf(c)
	}
	input := func() (string, error) {
		if typed(c.InOrStdin()) {
			return "", usagef("run needs a prompt: give it as arguments, or on standard input")
		}
		b, err := io.ReadAll(c.InOrStdin())
		if err != nil {
			return "", fmt.Errorf("reading the prompt from standard input: %w", err)
		}
		return strings.TrimRight(string(b), "\n"), nil
	}
	if len(args) == 0 {
		args = []string{"-"}
	}
	var words []string
	for _, arg := range args {
		if arg == "-" {
			text, err := input()
			if err != nil {
				return nil, err
			}
			arg = text
			if len(args) > 1 {
				arg = "\n" + text
			}
		}
		words = append(words, arg)
	}
	if f.Prompt = strings.Join(words, " "); strings.TrimSpace(f.Prompt) == "" {
		return nil, usagef("the prompt is empty: give it as arguments, or on standard input")
	}
	return json.Marshal(a.body(f.question))
}

// dataOf is what --data says.
func (f *runFlags) dataOf(c *cobra.Command) (b []byte, err error) {
	switch file, isFile := strings.CutPrefix(f.data, "@"); {
	case file == "-" && isFile:
		b, err = io.ReadAll(c.InOrStdin())
	case isFile:
		b, err = os.ReadFile(file)
	default:
		b = []byte(f.data)
	}
	if err != nil {
		return nil, fmt.Errorf("reading --data: %w", err)
	}
	if !json.Valid(b) {
		return nil, usagef("--data is not JSON: give an object such as {\"model\": …}, @FILE or @-")
	}
	return b, nil
}

// ask sends the request until it is answered, and prints the answer.
func (r *request) ask(body []byte) error {
	ctx, cancel := context.WithCancelCause(r.c.Context())
	defer cancel(nil)
	signals := interruptsOf(ctx)
	var interrupted atomic.Bool
	r.waits = waitsOf(r.config, func(cause error) {
		if cause == terminal.ErrInterrupted {
			interrupted.Store(true)
			signals.raise()
			return
		}
		cancel(cause)
	})
	signals.first(r.waits.Interrupt)
	defer signals.first(nil)

	err := r.until(ctx, body)
	switch {
	case context.Cause(ctx) == terminal.ErrCanceled:
		return coded{exitCanceled, errors.New("cancelled while it waited; it was not sent")}
	case err != nil && interrupted.Load():
		return coded{exitSignal + int(syscall.SIGINT), errors.New("interrupted while it waited; it was not sent")}
	}
	return err
}

// waitsOf shows waits as a configuration says.
func waitsOf(c *config.Config, cancel func(error)) *terminal.Waits {
	set := func(d time.Duration) time.Duration {
		if d == 0 {
			return -1 // at once
		}
		return d
	}
	return &terminal.Waits{
		Delay: set(c.Wait.Delay), Interval: c.Wait.Interval, Timeout: set(c.Wait.Timeout), Hidden: !c.Wait.Show,
		Cancel: cancel, OwnInterrupts: true,
	}
}

// print prints an answer, unless it is cut and keep is set.
func (r *request) print(ctx context.Context, resp *http.Response, keep bool) (cut bool, err error) {
	defer resp.Body.Close()
	out := r.c.OutOrStdout()
	ended := true
	switch events := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream"); {
	case events && (r.json || r.data != ""):
		printed := io.TeeReader(resp.Body, out)
		if _, err = copyEvents(io.Discard, printed, faultOf); err != nil {
			io.Copy(io.Discard, printed) // what comes behind it belongs to the answer
		}
	case r.json || r.data != "":
		_, err = io.Copy(out, resp.Body)
	case events:
		ended, err = copyEvents(out, resp.Body, r.api.event)
	default:
		var b []byte
		if b, err = io.ReadAll(resp.Body); err != nil {
			break
		}
		a, err := r.api.answer(b)
		switch {
		case err != nil:
			return false, fmt.Errorf("%s answered what cannot be read (%w); --json prints it as it is", r.provider.Name, err)
		case a.cut && keep:
			return true, nil
		}
		ended = strings.HasSuffix(a.text, "\n")
		io.WriteString(out, a.text) // results knows of what cannot be written
	}
	if !ended {
		fmt.Fprintln(out)
	}
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err != nil:
		return false, fmt.Errorf("the answer of %s is not whole: %w", r.provider.Name, err)
	}
	return false, nil
}
