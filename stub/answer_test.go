package stub_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline/stub"
)

func TestAnswers(t *testing.T) {
	s := mustStub(t, stub.Config{})
	body := `{"model":"m-\"7","messages":[]}`
	prompt := (len(body) + 3) / 4

	var completion struct {
		Model   string
		Choices []struct{ Message struct{ Content string } }
		Usage   struct{ Prompt_tokens, Completion_tokens int }
	}
	resp, text := post(t, s, chat, body)
	if err := json.Unmarshal([]byte(text), &completion); err != nil || resp.StatusCode != 200 {
		t.Fatal(resp.Status, err, text)
	}
	if c := completion; c.Model != `m-"7` || c.Choices[0].Message.Content != "This is generation 1." || c.Usage.Prompt_tokens != prompt || c.Usage.Completion_tokens != 12 {
		t.Errorf("%+v", c)
	}
	if resp.ContentLength != int64(len(text)) {
		t.Errorf("ContentLength %d of %d", resp.ContentLength, len(text))
	}

	var message struct {
		Model   string
		Content []struct{ Text string }
		Usage   struct{ Input_tokens, Output_tokens int }
	}
	_, text = post(t, s, messages, body)
	if err := json.Unmarshal([]byte(text), &message); err != nil {
		t.Fatal(err)
	}
	if m := message; m.Model != `m-"7` || m.Content[0].Text != "This is generation 2." || m.Usage.Input_tokens != prompt || m.Usage.Output_tokens != 12 {
		t.Errorf("%+v", m)
	}

	r := request(t.Context(), "http://stub.test/v1/models", "")
	r.Method = http.MethodGet
	resp, err := s.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	models, _ := io.ReadAll(resp.Body)
	if want := `{"data":[{"created":0,"id":"stub-1","object":"model","owned_by":"stub"}],"object":"list"}`; string(models) != want {
		t.Errorf("models: %s", models)
	}
}

// An event as a client sees it, and when it came after the request.
type seen struct {
	at   time.Duration
	text string
}

// listen reads a stream event by event.
func listen(t *testing.T, began time.Time, body io.Reader) (events []seen, end error) {
	t.Helper()
	lines := bufio.NewReader(body)
	var text string
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			if text+line != "" {
				t.Errorf("the stream ended inside an event: %q", text+line)
			}
			if err == io.EOF {
				err = nil
			}
			return events, err
		}
		if line != "\n" {
			text += line
			continue
		}
		events = append(events, seen{time.Since(began), text})
		text = ""
	}
}

func what(event string) string {
	var data struct {
		Type    string
		Choices []struct {
			Delta         struct{ Content, Role string }
			Finish_reason string
		}
		Delta json.RawMessage
		Usage *struct{ Completion_tokens, Output_tokens int }
	}
	_, text, _ := strings.Cut(event, "data: ")
	if err := json.Unmarshal([]byte(text), &data); err != nil {
		return strings.TrimSpace(text)
	}
	// A delta is an object of its text in one API and the text in another.
	var delta struct{ Text string }
	json.Unmarshal(data.Delta, &delta)
	out := data.Type + delta.Text
	for _, c := range data.Choices {
		out += c.Delta.Role + c.Delta.Content + c.Finish_reason
	}
	if data.Usage != nil {
		out += fmt.Sprint(" usage ", data.Usage.Completion_tokens+data.Usage.Output_tokens)
	}
	return out
}

func TestStreamIsTimedByTheEvent(t *testing.T) {
	for url, want := range map[string][]string{
		chat: {
			"0s assistant", "2s This ", "4s is ", "6s generation ", "8s 1", "10s .", "10s stop", "10s [DONE]",
		},
		responses: {
			"0s response.created", "0s response.in_progress", "0s response.output_item.added", "0s response.content_part.added",
			"2s response.output_text.delta", "4s response.output_text.delta", "6s response.output_text.delta",
			"8s response.output_text.delta", "10s response.output_text.delta",
			"10s response.output_text.done", "10s response.content_part.done", "10s response.output_item.done", "10s response.completed",
		},
		messages: {
			"0s message_start", "0s content_block_start", "0s ping",
			"2s content_block_deltaThis ", "4s content_block_deltais ", "6s content_block_deltageneration ",
			"8s content_block_delta1", "10s content_block_delta.",
			"10s content_block_stop", "10s message_delta usage 12", "10s message_stop",
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := mustStub(t, stub.Config{Service: 10 * time.Second})
			began := time.Now()
			resp, err := s.RoundTrip(request(t.Context(), url, `{"messages":[{"stream":false}],"stream":true}`))
			if err != nil {
				t.Fatal(err)
			}
			if d := time.Since(began); d != 0 || resp.ContentLength != -1 || resp.Header.Get("Content-Type") != "text/event-stream" {
				t.Errorf("head after %v: %v", d, resp.Header)
			}
			events, err := listen(t, began, resp.Body)
			if err != nil {
				t.Error(err)
			}
			var got []string
			for _, e := range events {
				got = append(got, fmt.Sprint(e.at, " ", what(e.text)))
				if name, data, _ := strings.Cut(e.text, "\n"); url != chat && !strings.Contains(data, `"type":"`+strings.TrimPrefix(name, "event: ")+`"`) {
					t.Errorf("name and type differ: %s", e.text)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s\n got %q\nwant %q", url, got, want)
			}
		})
	}
}

func TestStreamOverASocket(t *testing.T) {
	// Real time: only what cannot be early is asserted, and that the first
	// event comes while the last is still being made.
	s := mustStub(t, stub.Config{Service: 200 * time.Millisecond})
	server := httptest.NewServer(s)
	defer server.Close()
	began := time.Now()
	resp, err := server.Client().Post(server.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	first := make([]byte, 6)
	if _, err := io.ReadFull(resp.Body, first); err != nil || string(first) != "data: " {
		t.Fatal(string(first), err)
	}
	if s.Counts().PeakLive != 1 || resp.TransferEncoding == nil {
		t.Errorf("%+v %v", s.Counts(), resp.TransferEncoding)
	}
	events, err := listen(t, began, io.MultiReader(strings.NewReader("data: "), resp.Body))
	if err != nil || len(events) != 8 {
		t.Fatal(err, events)
	}
	for i := range 5 {
		if least := time.Duration(i+1) * 40 * time.Millisecond; events[i+1].at < least {
			t.Errorf("event %d after %v, before its time %v", i+1, events[i+1].at, least)
		}
	}
	if events[0].at >= events[7].at {
		t.Error("the events came in one piece")
	}
	if resp.Header.Get("Date") == "" {
		t.Error("no date")
	}
}

func TestAReaderThatStopsHoldsUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustStub(t, stub.Config{Service: 10 * time.Second, Concurrent: 1})
		resp, err := s.RoundTrip(request(t.Context(), chat, `{"stream":true}`))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		expectStream(t, s)
		// Nobody closed the first; its goroutine is gone all the same, and
		// the text is still there.
		if text, err := io.ReadAll(resp.Body); err != nil || !strings.HasSuffix(string(text), "data: [DONE]\n\n") {
			t.Errorf("%v %q", err, text)
		}
	})
}

// expectStream sends a streaming request that must be admitted, and closes it.
func expectStream(t *testing.T, s *stub.Stub) {
	t.Helper()
	resp, err := s.RoundTrip(request(t.Context(), chat, `{"stream":true}`))
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
}

func TestClientLeaves(t *testing.T) {
	// After three of ten seconds the client leaves, in one of the ways there are.
	for name, leave := range map[string]func(*http.Response, context.CancelFunc){
		"by closing the body": func(resp *http.Response, _ context.CancelFunc) { resp.Body.Close() },
		"by its context":      func(_ *http.Response, cancel context.CancelFunc) { cancel() },
	} {
		for _, stops := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", stops ", stops), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := mustStub(t, stub.Config{Service: 10 * time.Second, Concurrent: 1, StopsWithClient: stops})
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					resp, err := s.RoundTrip(request(ctx, chat, `{"stream":true}`))
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(3 * time.Second)
					leave(resp, cancel)
					synctest.Wait()
					if text, err := io.ReadAll(resp.Body); err == nil {
						t.Errorf("read %q after leaving", text)
					}
					counts(t, s, stub.Counts{Admitted: 1, PeakLive: 1, PeakWindow: 1, Left: 1})
					if stops {
						expectStream(t, s)
						return
					}
					expect(t, s, "429 7")
					time.Sleep(7*time.Second - 1)
					expect(t, s, "429 1")
					time.Sleep(1)
					expectStream(t, s)
					synctest.Wait()
					if got := s.Counts().PeakLive; got != 1 {
						t.Errorf("%d live at once", got)
					}
				})
			})
		}
	}
}

func TestClientLeavesBeforeTheHead(t *testing.T) {
	cause := errors.New("enough")
	synctest.Test(t, func(t *testing.T) {
		s := mustStub(t, stub.Config{Service: 10 * time.Second})
		ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Second, cause)
		defer cancel()
		began := time.Now()
		_, err := s.RoundTrip(request(ctx, chat, `{}`))
		if !errors.Is(err, cause) || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		synctest.Wait()
		counts(t, s, stub.Counts{Admitted: 1, PeakLive: 1, PeakWindow: 1, Left: 1})
	})
	synctest.Test(t, func(t *testing.T) {
		// In transit nothing is counted but the leaving.
		s := mustStub(t, stub.Config{Jitter: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), time.Microsecond)
		defer cancel()
		if _, err := s.RoundTrip(request(ctx, chat, `{}`)); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		synctest.Wait()
		counts(t, s, stub.Counts{Left: 1})
		// Nor where the client was gone before it sent.
		if _, err := s.RoundTrip(request(ctx, chat, `{}`)); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		counts(t, s, stub.Counts{Left: 1})
	})
}

func TestClientLeavesOverASocket(t *testing.T) {
	s := mustStub(t, stub.Config{Service: time.Hour, Concurrent: 1})
	server := httptest.NewServer(s)
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	r := request(ctx, server.URL+"/v1/messages", `{"stream":true}`)
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	cancel()
	for s.Counts().Left == 0 {
		time.Sleep(time.Millisecond)
	}
	// It goes on and keeps its place.
	resp, err = server.Client().Post(server.URL+"/v1/messages", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "3600" {
		t.Errorf("%d, Retry-After %q", resp.StatusCode, resp.Header.Get("Retry-After"))
	}
}
