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
	"strings"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/budget/file"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/stub"
)

// provider is a stand-in for a real one: three requests a second, and no more.
func provider() *httptest.Server {
	s, err := stub.New(stub.Config{
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
// later.
func ExampleTransport_store() {
	server := provider()
	defer server.Close()
	home, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(home)

	store, err := file.Open(filepath.Join(home, "rate-limits"))
	if err != nil {
		fmt.Println(err)
		return
	}
	// What has been granted can outlive the process as well; one process at a
	// time has it.
	granted, err := memory.Open(filepath.Join(home, "journal"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer granted.Close()

	client := &http.Client{Transport: &paceline.Transport{Store: store, Limiter: granted}}
	res, err := client.Post(server.URL+"/v1/chat/completions", "application/json", strings.NewReader(prompt))
	if err != nil {
		fmt.Println(err)
		return
	}
	res.Body.Close()
	fmt.Println(res.Status)
	// Output: 200 OK
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
