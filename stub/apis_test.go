package stub_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/stub"
)

// events are the events of a streamed answer, without their times.
func events(t *testing.T, s *stub.Stub, url, body string) (got []string) {
	t.Helper()
	resp, err := s.RoundTrip(request(t.Context(), url, body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || kind != "text/event-stream" {
		t.Errorf("%s %s, want a stream", resp.Status, kind)
	}
	seen, err := listen(t, time.Now(), resp.Body)
	if err != nil {
		t.Error(err)
	}
	for _, e := range seen {
		got = append(got, e.text)
	}
	return got
}

func TestResponses(t *testing.T) {
	s := mustStub(t, stub.Config{})
	body := `{"model":"m","input":"hi"}`
	var whole struct {
		Status string
		Output []struct{ Content []struct{ Text string } }
		Usage  struct{ Input_tokens, Output_tokens, Total_tokens int }
	}
	resp, text := post(t, s, responses, body)
	if err := json.Unmarshal([]byte(text), &whole); err != nil || resp.StatusCode != 200 {
		t.Fatal(resp.Status, err, text)
	}
	if w := whole; w.Status != "completed" || w.Output[0].Content[0].Text != "This is generation 1." || w.Usage.Input_tokens != 7 || w.Usage.Total_tokens != 19 {
		t.Errorf("%+v", w)
	}

	var said string
	for i, e := range events(t, s, responses, `{"stream":true}`) {
		var data struct {
			Sequence_number int
			Delta           string
			Response        struct {
				Output []struct{ Content []struct{ Text string } }
				Usage  *struct{ Output_tokens int }
			}
		}
		_, text, _ := strings.Cut(e, "data: ")
		if err := json.Unmarshal([]byte(text), &data); err != nil || data.Sequence_number != i {
			t.Errorf("event %d: %v: %s", i, err, e)
		}
		said += data.Delta
		if strings.HasPrefix(e, "event: response.completed\n") {
			if r := data.Response; r.Output[0].Content[0].Text != said || r.Usage.Output_tokens != 12 {
				t.Errorf("completed with %+v", r)
			}
		}
	}
	if said != "This is generation 2." {
		t.Errorf("the deltas say %q", said)
	}
}

func TestEmbeddings(t *testing.T) {
	s := mustStub(t, stub.Config{})
	for i, test := range []struct{ input, want string }{
		{`"one"`, `[[N,0,0.5,-0.25]]`},
		{`["one","two"]`, `[[N,0,0.5,-0.25],[N,1,0.5,-0.25]]`},
		{`[1,2,3]`, `[[N,0,0.5,-0.25]]`},
		{`[[1,2],[3]]`, `[[N,0,0.5,-0.25],[N,1,0.5,-0.25]]`},
		{`[]`, `[[N,0,0.5,-0.25]]`},
		// A stream is for other APIs; nine bytes in base64 are generation 6.
		{`"one","stream":true,"encoding_format":"base64"`, `["AADAQAAAAAAAAAA/AACAvg=="]`},
	} {
		resp, text := post(t, s, embeddings, `{"input":`+test.input+`}`)
		var list struct {
			Data []struct {
				Index     int
				Embedding any
			}
		}
		if err := json.Unmarshal([]byte(text), &list); err != nil || resp.StatusCode != 200 {
			t.Fatal(resp.Status, err, text)
		}
		var vectors []any
		for n, d := range list.Data {
			if d.Index != n {
				t.Errorf("index %d at %d", d.Index, n)
			}
			vectors = append(vectors, d.Embedding)
		}
		got, _ := json.Marshal(vectors)
		if want := strings.ReplaceAll(test.want, "N", fmt.Sprint(i+1)); string(got) != want {
			t.Errorf("input %s: %s, want %s", test.input, got, want)
		}
	}
	if got := s.Counts().Admitted; got != 6 {
		t.Errorf("%d admitted: embeddings are metered", got)
	}
}

// OpenAI tells what a stream used where it is asked to, and nowhere else.
func TestUsageOfAStreamIsToldWhereAsked(t *testing.T) {
	s := mustStub(t, stub.Config{})
	for _, options := range []string{"", `,"stream_options":{}`, `,"stream_options":{"include_usage":false}`, `,"stream_options":null`} {
		if all := strings.Join(events(t, s, chat, `{"stream":true`+options+`}`), ""); strings.Contains(all, "usage") {
			t.Errorf("%q: %s", options, all)
		}
	}
	got := events(t, s, chat, `{"stream":true,"stream_options":{"include_usage":true}}`)
	for _, e := range got[:len(got)-2] {
		if !strings.Contains(e, `"usage":null`) {
			t.Errorf("no empty usage in %s", e)
		}
	}
	if e := got[len(got)-2]; !strings.Contains(e, `"choices":[]`) || !strings.Contains(e, `"completion_tokens":12`) {
		t.Errorf("the usage is %s", e)
	}
}

func TestPings(t *testing.T) {
	for url, ping := range map[string]string{chat: ": ping\n", responses: ": ping\n", messages: "event: ping\ndata: {\"type\":\"ping\"}\n"} {
		synctest.Test(t, func(t *testing.T) {
			s := mustStub(t, stub.Config{Service: 10 * time.Second, Ping: 800 * time.Millisecond})
			began := time.Now()
			resp, err := s.RoundTrip(request(t.Context(), url, `{"stream":true}`))
			if err != nil {
				t.Fatal(err)
			}
			seen, err := listen(t, began, resp.Body)
			if err != nil {
				t.Error(err)
			}
			var at []time.Duration
			for _, e := range seen {
				if e.text == ping && e.at > 0 {
					at = append(at, e.at)
				}
			}
			// Counted from what was said last, and none where something is due.
			want := []time.Duration{800e6, 1600e6, 2800e6, 3600e6, 4800e6, 5600e6, 6800e6, 7600e6, 8800e6, 9600e6}
			if !slices.Equal(at, want) {
				t.Errorf("%s: pings at %v", url, at)
			}
		})
	}
}

func TestErrorsInsideA200(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustStub(t, stub.Config{Service: 10 * time.Second, Faults: stub.Faults{{Kind: stub.FaultError}}, TrackRepeats: true})
		for url, kind := range map[string]string{chat: "server_is_overloaded", responses: "server_is_overloaded", embeddings: "server_is_overloaded", messages: "overloaded_error"} {
			began := time.Now()
			for range 2 {
				if resp, text := post(t, s, url, `{}`); resp.StatusCode != 200 || !strings.Contains(text, kind) || resp.Header.Get("Content-Type") != "application/json" {
					t.Errorf("%s: %s %s", url, resp.Status, text)
				}
			}
			if url != embeddings {
				if got := events(t, s, url, `{"stream":true}`); len(got) != 1 || !strings.Contains(got[0], "error") {
					t.Errorf("%s: %q", url, got)
				}
			}
			if d := time.Since(began); d != 0 {
				t.Errorf("%s: an error took %v", url, d)
			}
		}
		// Nothing was generated, so nothing twice.
		if c := s.Counts(); c.Repeated != 0 || c.Admitted != 11 {
			t.Errorf("%+v", c)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := mustStub(t, stub.Config{Service: 10 * time.Second, Faults: stub.Faults{{Kind: stub.FaultLateError}}, TrackRepeats: true})
		for url, want := range map[string]string{
			chat:      `data: {"error":{"code":"server_is_overloaded","message":"Overloaded","param":null,"type":"server_error"}}` + "\n",
			responses: "event: error\n" + `data: {"code":"server_error","message":"Overloaded","param":null,"sequence_number":6,"type":"error"}` + "\n",
			messages:  "event: error\n" + `data: {"error":{"message":"Overloaded","type":"overloaded_error"},"type":"error"}` + "\n",
		} {
			began := time.Now()
			got := events(t, s, url, `{"stream":true,"of":"`+url+`"}`)
			if last := got[len(got)-1]; last != want || len(got) < 4 || time.Since(began) != 5*time.Second {
				t.Errorf("%s: after %v %q", url, time.Since(began), got)
			}
			if resp, text := post(t, s, url, `{"of":"`+url+`"}`); resp.StatusCode != 200 || !strings.Contains(text, "verloaded") || time.Since(began) != 10*time.Second {
				t.Errorf("%s: after %v %s %s", url, time.Since(began), resp.Status, text)
			}
		}
		if c := s.Counts(); c.Repeated != 0 || c.PeakLive != 1 {
			t.Errorf("%+v", c)
		}
		// Half an answer is a generation: asked again, it is one too many.
		events(t, s, chat, `{"stream":true,"of":"`+chat+`"}`)
		if got := s.Counts().Repeated; got != 1 {
			t.Errorf("%d repeated", got)
		}
	})
}

// What Claude Code asks besides messages costs no meter anything.
func TestClaudeCodesExtras(t *testing.T) {
	server := httptest.NewServer(mustStub(t, stub.Config{Meters: []stub.Meter{{Kind: stub.Rolling, Limit: 1, Per: time.Hour}}}))
	defer server.Close()
	for range 3 {
		resp, err := http.Head(server.URL + "/")
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		resp, text := post(t, http.DefaultTransport, server.URL+"/v1/messages/count_tokens?beta=true", `{"model":"m","messages":[]}`)
		if resp.StatusCode != 200 || text != `{"input_tokens":7}` {
			t.Error(resp.Status, text)
		}
	}
	r := request(t.Context(), server.URL+"/v1/models?limit=1000", "")
	r.Method = http.MethodGet
	r.Header.Set("Anthropic-Version", "2023-06-01")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var models struct {
		Data []struct{ Type, ID string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&models); err != nil || len(models.Data) != 1 || models.Data[0].Type != "model" || models.Data[0].ID != stub.Model {
		t.Error(models, err)
	}
	if resp, _ := post(t, http.DefaultTransport, server.URL+"/v1/messages", `{}`); resp.StatusCode != 200 {
		t.Errorf("%s: the extras were metered", resp.Status)
	}
}

// A client that would rather have a WebSocket, as Codex, learns at once that
// there is none.
func TestNoWebSocket(t *testing.T) {
	r := request(t.Context(), responses, "")
	r.Method = http.MethodGet
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "websocket")
	resp, err := mustStub(t, stub.Config{}).RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusUpgradeRequired {
		t.Error(resp, err)
	}
}

// The own APIs of Gemini, Cohere and Ollama: paths, shapes and streams, and what
// paceline reads in them.
func TestOtherAPIs(t *testing.T) {
	const (
		gemini = "http://stub.test/v1beta/models/gemini-x:generateContent"
		stream = "http://stub.test/v1beta/models/gemini-x:streamGenerateContent"
		cohere = "http://stub.test/v2/chat"
		ollama = "http://stub.test/api/chat"
	)
	for _, test := range []struct {
		url, body   string
		contentType string
		parts       int      // in how many pieces it comes
		want        []string // in the answer
	}{
		{gemini, `{"contents":[]}`, "application/json", 1, []string{`"text":"This is generation 1."`, `"modelVersion":"gemini-x"`, `"finishReason":"STOP"`}},
		{stream, `{"contents":[]}`, "application/json", 7, []string{`[{"candidates"`, "},\r\n{", `"text":"generation "`, `"totalTokenCount":16`, "}]"}},
		{stream + "?alt=sse", `{"contents":[]}`, "text/event-stream", 6, []string{"data: {", `"text":"generation "`, `"finishReason":"STOP"`}},
		{cohere, `{"model":"c"}`, "application/json", 1, []string{`"text":"This is generation 1."`, `"finish_reason":"COMPLETE"`}},
		{cohere, `{"model":"c","stream":true}`, "text/event-stream", 9, []string{"event: message-start\n", "event: content-delta\n", `"finish_reason":"COMPLETE"`}},
		{ollama, `{"model":"o","stream":false}`, "application/json", 1, []string{`"content":"This is generation 1."`, `"model":"o"`, `"done":true`}},
		{ollama, `{"model":"o"}`, "application/x-ndjson", 7, []string{`"content":"generation "`, `"done":false`, "\n"}},
	} {
		t.Run(test.url+" "+test.body, func(t *testing.T) {
			s := mustStub(t, stub.Config{})
			resp, err := s.RoundTrip(request(t.Context(), test.url, test.body))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			meter := dialect.MeterOf(resp.StatusCode, resp.Header)
			text, err := io.ReadAll(resp.Body)
			meter.Write(text)
			if err != nil || resp.Header.Get("Content-Type") != test.contentType {
				t.Error(err, resp.Header)
			}
			for _, want := range test.want {
				if !strings.Contains(string(text), want) {
					t.Errorf("no %q in %s", want, text)
				}
			}
			if n := strings.Count(string(text), `"role"`); strings.Contains(test.url, "gemini") && test.parts > 1 && n != 6 {
				t.Errorf("%d parts: %s", n, text)
			}
			in := (len(test.body) + 3) / 4
			if u, told := meter.Usage(); !told || u.Input != in || u.Output != 12 {
				t.Errorf("read as %+v, want %d and 12", u, in)
			}
			if c := s.Counts(); c.Admitted != 1 {
				t.Errorf("counted %+v", c)
			}
		})
	}
	for _, url := range []string{"http://stub.test/v1beta/models/gemini-x:countTokens", "http://stub.test/v1beta/models/gemini-x", "http://stub.test/v2/embed"} {
		if resp, _ := post(t, mustStub(t, stub.Config{}), url, "{}"); resp.StatusCode != 404 {
			t.Errorf("%s: %d", url, resp.StatusCode)
		}
	}
}

// An error that hides in a 200 of theirs is found, at once or in mid-stream, and
// a stream that is cut has no end.
func TestFaultsOfOtherAPIs(t *testing.T) {
	for url, body := range map[string]string{
		"http://stub.test/v1beta/models/g:generateContent":               "{}",
		"http://stub.test/v1beta/models/g:streamGenerateContent":         "{}",
		"http://stub.test/v1beta/models/g:streamGenerateContent?alt=sse": "{}",
		"http://stub.test/v2/chat":                                       `{"stream":true}`,
		"http://stub.test/api/chat":                                      "{}",
	} {
		for _, kind := range []stub.FaultKind{stub.FaultError, stub.FaultLateError, stub.FaultCut} {
			s := mustStub(t, stub.Config{Faults: stub.Faults{{Kind: kind}}})
			resp, err := s.RoundTrip(request(t.Context(), url, body))
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if cut := err != nil; cut != (kind == stub.FaultCut) {
				t.Errorf("%s, %s: %v", url, kind, err)
			}
			if says := strings.Contains(string(text), "Overloaded"); says != (kind != stub.FaultCut) {
				t.Errorf("%s, %s: %s", url, kind, text)
			}
			if kind == stub.FaultError {
				r := dialect.Generic.ReadHead(dialect.Head{Status: 200, Header: resp.Header}, text)
				if r.Class != dialect.Overloaded {
					t.Errorf("%s: %s in %s", url, r.Class, text)
				}
			}
		}
	}
}
