package paceline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/budget/file"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/stub"
)

// provider is a stand-in for a real one: three requests a second, and no more. A
// script is what it does to the first ones.
func provider(script ...stub.Step) *httptest.Server {
	s, err := stub.New(stub.Config{
		Script:     script,
		Meters:     []stub.Meter{{Kind: stub.Rolling, Limit: 3, Per: time.Second}},
		RetryAfter: stub.RetryAfterMS,
	})
	if err != nil {
		panic(err)
	}
	return httptest.NewServer(s)
}

const prompt = `{"model": "small", "messages": [{"role": "user", "content": "hi"}]}`

// The zero Transport already waits out what a provider refuses: ten calls
// where three a second are allowed, and ten answers.
func ExampleTransport() {
	server := provider()
	defer server.Close()

	client := &http.Client{Transport: &paceline.Transport{}}
	for range 10 {
		res, err := client.Post(server.URL+"/v1/chat/completions", "application/json", strings.NewReader(prompt))
		if err != nil {
			fmt.Println(err)
			return
		}
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
		fmt.Print(res.StatusCode, " ")
	}
	// Output: 200 200 200 200 200 200 200 200 200 200
}

// Declared limits keep a program from being refused at all.
func ExampleTransport_declaredLimits() {
	server := provider()
	defer server.Close()

	refused := 0
	client := &http.Client{Transport: &paceline.Transport{
		Limiter: memory.New(),
		Providers: []paceline.Provider{{
			Name:    "mine",
			BaseURL: server.URL + "/v1",
			Limits: paceline.Limits{
				MaxPerSecond:  3,
				MaxConcurrent: 2,
				SafetyMargin:  0.1, // leave a tenth to others on the key
			},
		}},
		Log: func(r paceline.Record) {
			if r.Status == http.StatusTooManyRequests {
				refused++
			}
		},
	}}
	for range 6 {
		res, err := client.Post(server.URL+"/v1/chat/completions", "application/json", strings.NewReader(prompt))
		if err != nil {
			fmt.Println(err)
			return
		}
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	fmt.Println("refused:", refused)
	// Output: refused: 0
}

// A context bounds the waiting and the answer together. Where the turn cannot
// come in time, the request is refused at once and nothing is sent.
func ExampleTransport_deadline() {
	server := provider()
	defer server.Close()

	client := &http.Client{Transport: &paceline.Transport{
		Limiter:   memory.New(),
		Providers: []paceline.Provider{{Name: "mine", BaseURL: server.URL, Limits: paceline.Limits{MaxPerHour: 1}}},
	}}
	for range 2 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		req, _ := http.NewRequestWithContext(ctx, "POST", server.URL+"/v1/chat/completions", strings.NewReader(prompt))
		res, err := client.Do(req)
		if err != nil {
			fmt.Println(err)
		} else {
			fmt.Println(strings.TrimSpace(res.Status + " " + res.Header.Get("X-Paceline-Refused")))
			res.Body.Close()
		}
		cancel()
	}
	// Output:
	// 200 OK
	// 429 Too Many Requests deadline
}

// Two entries over one base URL, each with limits of its own, told apart by
// the request.
func ExampleTransport_route() {
	server := provider()
	defer server.Close()

	transport := &paceline.Transport{
		Limiter: memory.New(),
		Providers: []paceline.Provider{
			{Name: "batch", BaseURL: server.URL, Limits: paceline.Limits{MaxPerMinute: 1}},
			{Name: "chat", BaseURL: server.URL, Limits: paceline.Limits{MaxPerMinute: 60}},
		},
		Route: func(r *http.Request) ([]paceline.Route, error) {
			if r.Header.Get("X-Paceline-Purpose") == "batch" {
				return []paceline.Route{{Provider: "batch"}}, nil
			}
			return []paceline.Route{{Provider: "chat"}}, nil
		},
		Log: func(r paceline.Record) { fmt.Println(r.Provider, r.Purpose) },
	}
	for _, purpose := range []string{"batch", ""} {
		req, _ := http.NewRequest("POST", server.URL+"/v1/chat/completions", strings.NewReader(prompt))
		req.Header.Set("X-Paceline-Purpose", purpose)
		res, err := transport.RoundTrip(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	// Output:
	// batch batch
	// chat
}

// What is learned of a key, and above all a wait that a provider has told,
// binds every process that opens the same directory, also one that starts
// later: here the second sends nothing until the first one's wait is over.
func ExampleTransport_store() {
	server := provider(stub.Step{Status: http.StatusTooManyRequests, Wait: time.Hour})
	defer server.Close()
	home, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(home)

	for process := range 2 {
		store, err := file.Open(filepath.Join(home, "rate-limits"))
		if err != nil {
			fmt.Println(err)
			return
		}
		// What has been granted can outlive a process as well; one at a time has it.
		granted, err := memory.Open(filepath.Join(home, "journal"))
		if err != nil {
			fmt.Println(err)
			return
		}
		client := &http.Client{Transport: &paceline.Transport{Store: store, Limiter: granted}}
		res, err := client.Post(server.URL+"/v1/chat/completions", "application/json", strings.NewReader(prompt))
		if err != nil {
			fmt.Println(err)
			return
		}
		res.Body.Close()
		fmt.Printf("process %d: %s, sent %s times\n", process+1, res.Status, res.Header.Get("X-Paceline-Attempts"))
		granted.Close()
	}
	// Output:
	// process 1: 429 Too Many Requests, sent 1 times
	// process 2: 429 Too Many Requests, sent 0 times
}

// Several Transports over one Limiter count together: those of a process that
// talk to one provider, each with settings of its own.
func ExampleTransport_sharedLimiter() {
	server := provider()
	defer server.Close()

	limits := []paceline.Provider{{Name: "mine", BaseURL: server.URL, Limits: paceline.Limits{MaxPerHour: 2, Pacing: paceline.Burst}}}
	shared := memory.New()
	chat := &paceline.Transport{Limiter: shared, Providers: limits}
	batch := &paceline.Transport{Limiter: shared, Providers: limits}
	for _, transport := range []*paceline.Transport{chat, batch, chat} {
		req, _ := http.NewRequest("POST", server.URL+"/v1/chat/completions", strings.NewReader(prompt))
		req.Header.Set("X-Paceline-Max-Wait", "1s")
		res, err := transport.RoundTrip(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(res.Status)
		res.Body.Close()
	}
	// Output:
	// 200 OK
	// 200 OK
	// 429 Too Many Requests
}

// A job that nobody sits in front of waits as long as it takes, where others
// are handed a refusal back that asks for more than Retry.MaxWait or has come
// for the seventh time.
func ExampleWaitForCapacity() {
	refused := stub.Step{Status: http.StatusTooManyRequests, Wait: 20 * time.Millisecond}
	server := provider(slices.Repeat([]stub.Step{refused}, 12)...)
	defer server.Close()

	client := &http.Client{Transport: &paceline.Transport{Limiter: memory.New()}}
	ctx := paceline.WaitForCapacity(context.Background())
	req, _ := http.NewRequestWithContext(ctx, "POST", server.URL+"/v1/chat/completions", strings.NewReader(prompt))
	res, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	res.Body.Close()
	fmt.Printf("%s after %s attempts\n", res.Status, res.Header.Get("X-Paceline-Attempts"))
	// Output: 200 OK after 13 attempts
}

// A program can say what its requests wait for.
func ExampleTransport_onWait() {
	server := provider(stub.Step{Status: http.StatusTooManyRequests, Wait: time.Second})
	defer server.Close()

	client := &http.Client{Transport: &paceline.Transport{
		Limiter: memory.New(),
		OnWait: func(w *paceline.Wait) {
			if w.Over {
				fmt.Println("going on")
			} else {
				fmt.Printf("waiting for %s: %s\n", w.Model, w.Why)
			}
		},
	}}
	res, err := client.Post(server.URL+"/v1/chat/completions", "application/json", strings.NewReader(prompt))
	if err != nil {
		fmt.Println(err)
		return
	}
	res.Body.Close()
	fmt.Println(res.Status)
	// Output:
	// waiting for small: rate_limit (told)
	// going on
	// 200 OK
}

// Whoever looks on may have a request sent although what the provider last told
// is that nothing is left. What it has asked to wait for is waited for all the
// same.
func ExampleWait_SendAnyway() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Ratelimit-Limit-Requests", "1")
		w.Header().Set("X-Ratelimit-Remaining-Requests", "0")
		w.Header().Set("X-Ratelimit-Reset-Requests", "1m")
	}))
	defer server.Close()

	client := &http.Client{Transport: &paceline.Transport{
		Limiter:   memory.New(),
		Providers: []paceline.Provider{{Name: "mine", BaseURL: server.URL, Dialect: "openai"}},
		OnWait: func(w *paceline.Wait) {
			if w.Kind == paceline.WaitBudget && !w.Over {
				fmt.Printf("%d of %d %s left\n", w.Budget.Remaining, w.Budget.Limit, w.Budget.Unit)
				go w.SendAnyway() // when somebody has said so
			}
		},
	}}
	for range 2 {
		res, err := client.Post(server.URL+"/v1/chat/completions", "application/json", strings.NewReader(prompt))
		if err != nil {
			fmt.Println(err)
			return
		}
		res.Body.Close()
		fmt.Println(res.Status)
	}
	// Output:
	// 200 OK
	// 0 of 1 requests left
	// 200 OK
}

// Records tell what became of each attempt.
func ExampleTransport_log() {
	server := provider(stub.Step{Status: http.StatusTooManyRequests, Wait: 20 * time.Millisecond})
	defer server.Close()

	client := &http.Client{Transport: &paceline.Transport{
		Limiter: memory.New(),
		Log: func(r paceline.Record) {
			fmt.Printf("attempt %d: %d %s, told to wait %v\n", r.Attempt, r.Status, r.Class, r.Wait)
		},
	}}
	res, err := client.Post(server.URL+"/v1/chat/completions", "application/json", strings.NewReader(prompt))
	if err != nil {
		fmt.Println(err)
		return
	}
	io.Copy(io.Discard, res.Body)
	res.Body.Close()
	// Output:
	// attempt 1: 429 rate_limited, told to wait 20ms
	// attempt 2: 200 ok, told to wait 0s
}

// A record of each attempt, as a line of JSON.
func ExampleRecord() {
	json.NewEncoder(os.Stdout).Encode(paceline.Record{
		ID: "AB12", Attempt: 1, Provider: "openai", Model: "small",
		Arrived: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC),
		Sent:    time.Date(2026, 11, 29, 12, 0, 4, 0, time.UTC),
		Done:    time.Date(2026, 11, 29, 12, 0, 5, 0, time.UTC),
		Status:  429, Class: "rate_limited", Told: true, Wait: 2 * time.Second, Queued: 4 * time.Second,
		Evidence: &paceline.Evidence{UnderLimit: true, Sent60s: 3, Sent1s: 1, Factor: 0.7, Adapted: true},
	})
	// Output: {"id":"AB12","attempt":1,"t_arrived":"2026-11-29T12:00:00.000Z","t_sent":"2026-11-29T12:00:04.000Z","t_done":"2026-11-29T12:00:05.000Z","provider":"openai","model":"small","status":429,"class":"rate_limited","wait_ms":2000,"queued_ms":4000,"under_limit":true,"sent_60s":3,"sent_1s":1,"rate_factor":0.7,"rate_adapted":true}
}
