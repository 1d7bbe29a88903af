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
	"strconv"
	"strings"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/internal/home"
	"github.com/paceline-proxy/paceline/terminal"
)

// How run asks until it is answered.

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
	_, started, err := ensure(ctx, r.home)
	if err != nil {
		return nil, err
	}
	if started && r.asked {
		fmt.Fprintf(r.c.ErrOrStderr(), "paceline: the proxy was stopped while this request waited; another is started for it\n")
	}
	r.asked = true
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
	return fmt.Sprintf("the proxy has gone before it answered: %v; its log is serve.log in its home. The next run starts it again; with --retries 1 this one would have", e.error)
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
