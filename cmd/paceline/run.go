package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/internal/config"
	"github.com/paceline-proxy/paceline/internal/home"
	"github.com/paceline-proxy/paceline/terminal"
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

Without a terminal a request that could be sent all the same is sent after ten seconds.
What a provider states is waited for in any case.

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

// configure finds out whom to ask, and with which key.
func (r *request) configure(ctx context.Context) error {
	at, err := findConfig(ctx, "")
	if err != nil {
		return err
	}
	if r.config, err = config.Load(at.path); err != nil {
		return err
	}
	name, err := r.name()
	if err != nil {
		return err
	}
	p, known, err := r.config.Provider(name)
	switch {
	case err != nil:
		return err
	case !known && !elsewhere():
		return unknownProvider(name, providerNames(r.config))
	}
	r.provider = p
	r.api, r.path = apiOf(p)
	r.path = cmp.Or(r.runFlags.path, r.path)
	r.header = r.api.header.Clone()
	r.header.Set("Content-Type", "application/json")
	r.header.Set("User-Agent", "paceline/"+thisBuild().Version)
	set := func(name, value string) {
		if value != "" {
			r.header.Set("X-Paceline-"+name, value)
		}
	}
	set("Client", cmp.Or(string(r.callerFlags.name), "run"))
	if r.priority.word == "" && typed(r.c.InOrStdin()) {
		set("Priority", "interactive") // somebody sits there
	}
	set("Priority", r.priority.word)
	if r.anyhow {
		set("Wait-For-Capacity", "1")
	}
	return r.authorize()
}

// elsewhere reports whether the proxy is one whose configuration is not ours.
func elsewhere() bool { return os.Getenv("PACELINE_URL") != "" }

// name is the provider that is meant. A prefix of the model is taken off.
func (r *request) name() (string, error) {
	if r.runFlags.provider != "" {
		return r.runFlags.provider, nil
	}
	defaults := r.config.DefaultProvider
	if prefix, model, ok := strings.Cut(r.Model, "/"); ok {
		if _, known, err := r.config.Provider(prefix); known && err == nil {
			r.Model = model
			return prefix, nil
		}
		// A provider that somebody has chosen as default may have such models.
		if defaults == config.Default().DefaultProvider && !elsewhere() {
			return "", usagef("%v; for a model with a slash in its name give --provider too", unknownProvider(prefix, providerNames(r.config)))
		}
	}
	if strings.HasPrefix(r.Model, "claude") || strings.HasSuffix(r.runFlags.path, "/messages") {
		return defaults.Anthropic, nil
	}
	return defaults.OpenAI, nil
}

// apiOf is how a provider is asked, and where below its base URL.
func apiOf(p config.Provider) (a api, path string) {
	d := dialectOf(p)
	bound := "max_tokens"
	if p.Name == d.Name || d.BaseURL == "" { // who else speaks so may not know the newer field
		bound = cmp.Or(d.MaxTokens, bound)
	}
	if a = chatCompletions(bound); d.API == dialect.AnthropicAPI {
		a = messages()
	}
	return a, cmp.Or(d.ChatPath, "/v1/chat/completions")
}

// dialectOf is how a provider speaks.
func dialectOf(p config.Provider) *dialect.Dialect {
	if d, ok := dialect.ByName(p.Dialect); ok {
		return d
	}
	return dialect.Generic
}

// variablesOf are the environment variables that may have a provider's key.
func variablesOf(p config.Provider) []string {
	if names := dialectOf(p).KeyVariables; names != nil && p.Name == p.Dialect {
		return names
	}
	return []string{strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(p.Name)) + "_API_KEY"}
}

// authorize sends the key of the environment where the proxy has none.
func (r *request) authorize() error {
	name := r.provider.Name
	if len(r.provider.Credentials) > 0 && !elsewhere() {
		r.keyFrom = "paceline.yaml"
		return nil
	}
	variables := variablesOf(r.provider)
	for _, v := range variables {
		if key := os.Getenv(v); key != "" {
			r.api.key(r.header, key)
			r.keyFrom = v
			return nil
		}
	}
	if elsewhere() || local(r.provider.BaseURL) {
		return nil // it may have one, or need none
	}
	return fmt.Errorf("there is no key for %s: set %s, or add to paceline.yaml providers: {%s: {apiKey: file:PATH}}", name, variables[0], name)
}

// local reports whether a base URL is of this machine.
func local(base string) bool {
	u, err := url.Parse(base)
	return err == nil && (u.Hostname() == "localhost" || strings.HasPrefix(u.Hostname(), "127.") || u.Hostname() == "::1")
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

// until sends the request, and again what may have an answer later.
func (r *request) until(ctx context.Context, body []byte) error {
	cutRetried := !r.retryCut
	for left, n := r.retries, 0; ; n++ {
		resp, err := r.dispatch(ctx, body)
		if ctx.Err() != nil {
			if err == nil {
				resp.Body.Close()
			}
			return ctx.Err()
		}
		if err == nil && resp.StatusCode/100 == 2 {
			cut, err := r.print(ctx, resp, !cutRetried)
			if !cut || cutRetried || err != nil {
				return err
			}
			cutRetried = true
			r.MaxTokens *= 2
			if body, err = json.Marshal(r.api.body(r.question)); err != nil {
				return err
			}
			continue
		}
		failed, wait, again := r.failed(resp, err, n)
		if !again {
			if left--; left < 0 || !failed.passes {
				return failed.error
			}
		}
		if err := r.pause(ctx, failed, wait); err != nil {
			return err
		}
	}
}

// here says in the words of this command what callers of the proxy are told to do.
var here = strings.NewReplacer(
	"X-Paceline-Wait-For-Capacity: 1, or a longer Retry.MaxWait", "--wait-for-capacity, or a longer retry.maxWaitMs in paceline.yaml",
	"X-Paceline-Quota: wait", "--wait-for-capacity, or quota: wait in paceline.yaml",
)

// A failure is what was met in place of an answer.
type failure struct {
	error
	passes bool // it may be over later
}

// failed says what an answer that is none means, and when to ask again. again is
// whether that is sure: the proxy has sent it away to come again, to the place
// that it keeps.
func (r *request) failed(resp *http.Response, err error, n int) (f failure, wait time.Duration, again bool) {
	wait = min(time.Minute, time.Second<<min(n, 6))
	if err != nil {
		_, lost := errors.AsType[proxyLost](err)
		return failure{err, lost}, wait, false
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // as far as it says anything
	h := resp.Header
	ours := h.Get("X-Paceline-Refused") != ""
	limited := resp.StatusCode == http.StatusTooManyRequests || ours
	message := clean(home.Message(resp, b))
	says := fmt.Errorf("%s answered %d: %s", cmp.Or(h.Get("X-Paceline-Provider"), r.provider.Name), resp.StatusCode, message)
	switch {
	case ours:
		says = fmt.Errorf("not sent: %s", here.Replace(message))
	case resp.StatusCode == http.StatusUnauthorized && r.keyFrom != "":
		says = fmt.Errorf("%w (the key is that of %s)", says, r.keyFrom)
	}
	if told, ok := toldWait(h); ok {
		wait = told
		// What the proxy says in its own words has the time in it.
		if limited && told >= time.Second && !strings.HasPrefix(message, "paceline ") {
			says = fmt.Errorf("%w; try again in %v, at %s, or wait for it: --wait-for-capacity",
				says, told.Round(time.Second), time.Now().Add(told).UTC().Format(time.RFC3339))
		}
	}
	f = failure{coded{exitFailed, says}, limited || resp.StatusCode >= 500}
	if limited {
		f.error = coded{exitLimited, says}
	}
	return f, wait, limited && (r.anyhow || ours && h.Get("X-Should-Retry") == "true")
}

// toldWait is how long an answer asks to wait.
func toldWait(h http.Header) (time.Duration, bool) {
	for _, in := range []struct {
		name string
		unit time.Duration
	}{{"Retry-After-Ms", time.Millisecond}, {"Retry-After", time.Second}} {
		if n, err := strconv.ParseUint(strings.TrimSpace(h.Get(in.name)), 10, 31); err == nil {
			return time.Duration(n) * in.unit, true
		}
	}
	if at, err := http.ParseTime(h.Get("Retry-After")); err == nil {
		return max(0, time.Until(at).Round(time.Second)), true
	}
	return 0, false
}

// pause waits before the request is sent again.
func (r *request) pause(ctx context.Context, f failure, wait time.Duration) error {
	now := time.Now()
	w := paceline.Wait{ID: "again", Provider: r.provider.Name, Kind: paceline.WaitPause, Since: now, Until: now.Add(wait), Why: f.Error()}
	never := func() bool { return false }
	r.waits.Update(&w, never)
	over := w
	over.Over = true
	defer r.waits.Update(&over, never)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(wait):
		return nil
	}
}

// dispatch sends the request once. What it waits for is shown meanwhile.
func (r *request) dispatch(ctx context.Context, body []byte) (*http.Response, error) {
	if err := r.home.Make(); err != nil {
		return nil, err
	}
	if _, err := ensure(ctx, r.home); err != nil {
		return nil, err
	}
	id := rand.Text()
	header := r.header.Clone()
	header.Set("X-Paceline-Request-Id", id)
	watching, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		watchWait(watching, r.home.Client(), id, r.waits)
	}()
	defer func() { cancel(); <-ended }()
	resp, err := r.home.Client().Send(ctx, http.MethodPost, "/"+url.PathEscape(r.provider.Name)+r.path, header, body)
	if gone, ok := errors.AsType[*home.NotRunning](err); ok {
		return nil, proxyLost{gone.Err}
	}
	return resp, err
}

// proxyLost is why there is no answer of a proxy that was there.
type proxyLost struct{ error }

func (e proxyLost) Error() string {
	return fmt.Sprintf("the proxy has gone before it answered: %v; its log is serve.log in its home, and the next run starts it again", e.error)
}

// watchEvery is how often the proxy is asked what a request waits for.
const watchEvery = 100 * time.Millisecond

// watchWait shows what a request waits for at the proxy, until ctx ends.
func watchWait(ctx context.Context, proxy *home.Client, id string, waits *terminal.Waits) {
	var last *paceline.Wait
	over := func() {
		if last != nil {
			gone := *last
			gone.Over = true
			waits.Update(&gone, nil)
			last = nil
		}
	}
	defer over()
	anyway := func() bool { return proxy.Control(ctx, "anyway", order{ID: id}, nil) == nil }
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(watchEvery):
		}
		var now paceline.Wait
		err := proxy.Call(ctx, http.MethodGet, "/control/waits/"+id, nil, &now)
		refusal, refused := errors.AsType[*home.Refusal](err)
		switch {
		case err == nil:
			last = &now
			waits.Update(last, anyway)
		case refused && refusal.Status == http.StatusNotFound:
			over()
		case refused:
			return // it is not for us to know
		}
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
