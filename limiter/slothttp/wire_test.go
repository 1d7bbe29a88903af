package slothttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/limiter/slothttp"
)

var update = flag.Bool("update", false, "write what the wire says into testdata")

// shelved is a memory limiter that keeps blobs.
type shelved struct {
	*memory.Limiter
	blobs map[string][]byte
}

func newShelved() *shelved { return &shelved{memory.New(), map[string][]byte{}} }

func (s *shelved) Get(_ context.Context, key string) ([]byte, error) {
	return bytes.Clone(s.blobs[key]), nil
}

func (s *shelved) Update(_ context.Context, key string, f func([]byte) []byte) error {
	if b := f(bytes.Clone(s.blobs[key])); b != nil {
		s.blobs[key] = b
	} else {
		delete(s.blobs, key)
	}
	return nil
}

func envelope(method, params string) string {
	return fmt.Sprintf(`{"protocolVersion":"2","method":%q,"params":%s}`, method, params)
}

// post has a handler answer a call.
func post(h http.Handler, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// L-29, L-31, L-32, L-33, L-34, L-35, L-36, L-65: the wire, word by word.
func TestWire(t *testing.T) {
	for _, file := range []string{"testdata/methods.txt", "testdata/errors.txt"} {
		t.Run(file, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { converse(t, file) }) })
	}
}

func converse(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	h := &slothttp.Handler{Limiter: newShelved()}
	permits := map[string]string{} // names in the file, by permit
	names := func(s string) string { return replace(s, permits) }
	var out strings.Builder
	var answered string
	for n, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		kind, rest, _ := strings.Cut(line, " ")
		switch kind {
		case ">", ">>":
			body := rest
			if kind == ">" {
				method, params, _ := strings.Cut(rest, " ")
				body = envelope(method, params)
			}
			for permit, name := range permits {
				body = strings.ReplaceAll(body, name, permit)
			}
			w := post(h, body)
			answered = strings.TrimSpace(w.Body.String())
			if w.Code != http.StatusOK {
				answered = fmt.Sprintf("%d %s", w.Code, answered)
			} else if got := w.Header().Get("Content-Type"); got != "application/json" {
				t.Errorf("%s:%d: the answer is %s", file, n+1, got)
			}
			if m := permitForm.FindStringSubmatch(answered); m != nil && permits[m[1]] == "" {
				permits[m[1]] = fmt.Sprintf("PERMIT%d", len(permits)+1)
			}
			answered = names(answered)
		case "<":
			if rest != answered && !*update {
				t.Errorf("%s:%d: answered\n%s\nwant\n%s", file, n+1, answered, rest)
			}
			line = "< " + answered
		case "~":
			d, err := time.ParseDuration(rest)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(d)
		}
		out.WriteString(line + "\n")
	}
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

var permitForm = regexp.MustCompile(`"permit":"([^"]+)"`)

func replace(s string, names map[string]string) string {
	for from, to := range names {
		s = strings.ReplaceAll(s, from, to)
	}
	return s
}

// L-33: whatever is no call is a fault of the transport, and no 2xx.
func TestTransportFaults(t *testing.T) {
	h := &slothttp.Handler{Limiter: memory.New()}
	ok := envelope("acquire", `{"key":"me","limits":[]}`)
	for _, c := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
	}{
		{"a call", "POST", "/", ok, nil, 200},
		{"a call at another path", "POST", "/slots/limiter", ok, nil, 200},
		{"as curl sends it", "POST", "/", ok, []string{"Content-Type", "application/x-www-form-urlencoded"}, 200},
		{"health", "GET", "/health", "", nil, 200},
		{"health below a path", "GET", "/slots/health", "", nil, 200},
		{"GET", "GET", "/", "", nil, 405},
		{"PUT", "PUT", "/", ok, nil, 405},
		{"no JSON", "POST", "/", "acquire", nil, 400},
		{"too large", "POST", "/", `{"x":"` + strings.Repeat("x", 5<<20) + `"}`, nil, 413},
		{"of a web page", "POST", "/", ok, []string{"Origin", "https://example.com"}, 403},
		{"of a sandboxed web page", "POST", "/", ok, []string{"Origin", "null"}, 403},
	} {
		r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
		for i := 0; i < len(c.header); i += 2 {
			r.Header.Set(c.header[i], c.header[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%s: %d %s, want %d", c.name, w.Code, w.Body, c.status)
		}
		if w.Code == 405 && w.Header().Get("Allow") != "POST" {
			t.Errorf("%s: 405 allows %q", c.name, w.Header().Get("Allow"))
		}
	}
}

// Who does not know the secret learns and changes nothing; health is nobody's
// secret.
func TestSecret(t *testing.T) {
	h := &slothttp.Handler{Limiter: memory.New(), Secret: "correct horse"}
	const refused = `{"ok":false,"error":{"code":"unauthorized","message":"show the secret as Authorization: Bearer SECRET","retryable":false}}`
	throttle := envelope("throttle", `{"key":"me","until":"9999-01-01T00:00:00.000Z"}`)
	for _, shown := range []string{"", "Bearer", "Bearer ", "Bearer correct", "Bearer correct horse ", "Bearer correct horsf", "Basic correct horse"} {
		if got := strings.TrimSpace(post(h, throttle, "Authorization", shown).Body.String()); got != refused {
			t.Errorf("%q: %s", shown, got)
		}
		// Nor what there is, or whether a call would be one.
		if got := strings.TrimSpace(post(h, "nonsense", "Authorization", shown).Body.String()); got != refused {
			t.Errorf("%q: %s", shown, got)
		}
	}
	got := post(h, envelope("acquire", `{"key":"me","limits":[]}`), "Authorization", "Bearer correct horse").Body.String()
	if !strings.Contains(got, `"granted":true`) {
		t.Errorf("with the secret: %s", got)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/health", nil))
	if w.Code != 200 {
		t.Errorf("health without the secret: %d", w.Code)
	}
}

// failing is a limiter that is out of order.
type failing struct{ err error }

func (f failing) Acquire(context.Context, limiter.Request) (limiter.Decision, error) {
	return limiter.Decision{}, f.err
}
func (f failing) Release(context.Context, string) error             { return f.err }
func (f failing) Throttle(context.Context, string, time.Time) error { return f.err }

// A limiter that fails is unavailable, which may be tried again, and its owner
// hears of it; a limiter that blames the request is none.
func TestUnavailable(t *testing.T) {
	var log strings.Builder
	h := &slothttp.Handler{Limiter: failing{errors.New("the database is gone")}, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	for method, params := range map[string]string{
		"acquire":      `{"key":"me","limits":[]}`,
		"acquireBatch": `{"requests":[{"key":"me","limits":[]}]}`,
		"release":      `{"permit":"p"}`,
		"throttle":     `{"key":"me","until":"9999-01-01T00:00:00.000Z"}`,
	} {
		const want = `{"ok":false,"error":{"code":"unavailable","message":"the database is gone","retryable":true}}`
		if got := strings.TrimSpace(post(h, envelope(method, params)).Body.String()); got != want {
			t.Errorf("%s: %s", method, got)
		}
	}
	if n := strings.Count(log.String(), "the database is gone"); n != 4 {
		t.Errorf("%d lines in the log, want 4: %s", n, log.String())
	}
	log.Reset()
	h = &slothttp.Handler{Limiter: failing{fmt.Errorf("%w: no such thing", limiter.ErrInvalid)}, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	got := post(h, envelope("acquire", `{"key":"me","limits":[]}`)).Body.String()
	if !strings.Contains(got, `"code":"invalid_params"`) || log.Len() > 0 {
		t.Errorf("%s, log %s", got, log.String())
	}
}

// What a limiter cannot do is a method that there is not; batches are put to any.
func TestUpgradesThatAreMissing(t *testing.T) {
	type three struct{ limiter.Limiter }
	h := &slothttp.Handler{Limiter: three{memory.New()}}
	for method, params := range map[string]string{
		"settle":  `{"permit":"p","costs":[]}`,
		"renew":   `{"permits":[],"holdMs":1}`,
		"openKey": `{"key":"me"}`,
		"peek":    `{"key":"me","limits":[]}`,
		"seed":    `{"limits":[],"agoMs":0}`,
		"get":     `{"key":"k"}`,
		"swap":    `{"key":"k","old":null,"new":null}`,
	} {
		want := fmt.Sprintf(`{"ok":false,"error":{"code":"unknown_method","message":"there is no method \"%s\" here","retryable":false}}`, method)
		if got := strings.TrimSpace(post(h, envelope(method, params)).Body.String()); got != want {
			t.Errorf("%s: %s", method, got)
		}
	}
	for method, params := range map[string]string{
		"acquireBatch": `{"requests":[{"key":"me","limits":[]}]}`,
		"release":      `{"permit":"p","costs":[{"key":"a","cost":1}]}`, // the place is given back all the same
	} {
		if got := post(h, envelope(method, params)).Body.String(); !strings.HasPrefix(got, `{"ok":true`) {
			t.Errorf("%s: %s", method, got)
		}
	}
}

// closer counts how often it was closed.
type closer struct {
	*memory.Limiter
	closed int
}

func (c *closer) Close() error { c.closed++; return nil }

// L-32, CC-28: a limiter that is made of settings is there once open has brought
// them, and stays while they stay the same.
func TestOpenWithSettings(t *testing.T) {
	var made []*closer
	var asked []map[string]string
	h := &slothttp.Handler{Open: func(_ context.Context, settings map[string]string) (limiter.Limiter, error) {
		asked = append(asked, maps.Clone(settings))
		switch settings["url"] {
		case "":
			return nil, fmt.Errorf("%w: the setting url is missing", limiter.ErrInvalid)
		case "down":
			return nil, errors.New("nobody answers")
		}
		made = append(made, &closer{Limiter: memory.New()})
		return made[len(made)-1], nil
	}}
	acquire := envelope("acquire", `{"key":"me","limits":[{"key":"a","calls":1,"perMs":60000}]}`)
	says := func(step, body, want string) {
		t.Helper()
		if got := post(h, body).Body.String(); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", step, got, want)
		}
	}
	says("before", acquire, `"not_open"`)
	says("without the setting", envelope("open", `{}`), `"invalid_params","message":"invalid limiter request: the setting url is missing"`)
	says("nobody there", envelope("open", `{"settings":{"url":"down"}}`), `"unavailable","message":"nobody answers","retryable":true`)
	says("still", acquire, `"not_open"`)
	says("open", envelope("open", `{"settings":{"url":"a"}}`), `"ok":true`)
	says("a call", acquire, `"granted":true`)
	says("open again", envelope("open", `{"settings":{"url":"a"}}`), `"ok":true`)
	says("it has counted", acquire, `"granted":false`)
	says("other settings that fail", envelope("open", `{"settings":{"url":"down"}}`), `"unavailable"`)
	says("the first stays", acquire, `"granted":false`)
	says("other settings", envelope("open", `{"settings":{"url":"b"}}`), `"ok":true`)
	says("another limiter", acquire, `"granted":true`)
	says("close", envelope("close", `{}`), `"ok":true`)
	says("closed", acquire, `"not_open"`)
	says("close again", envelope("close", `{}`), `"ok":true`)
	says("reopen", envelope("open", `{"settings":{"url":"b"}}`), `"ok":true`)
	says("a third limiter", acquire, `"granted":true`)
	if len(made) != 3 || made[0].closed != 1 || made[1].closed != 1 || made[2].closed != 0 {
		t.Errorf("%d made of %v", len(made), asked)
	}
	if err := h.Close(); err != nil || made[2].closed != 1 {
		t.Errorf("Close: %v, closed %d times", err, made[2].closed)
	}
	if got := post(&slothttp.Handler{}, envelope("open", `{}`)).Body.String(); !strings.Contains(got, `"unavailable"`) {
		t.Errorf("nothing to open: %s", got)
	}
}

// What is JSON is read as encoding/json reads it.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,"\"]}",{"b":null,"c":[]}], "\u0061" : -1.5e3 }`, ` [ true , false,null,"é\\", {} ] `,
		`"\\\""`, `{"":{"":[[]]}}`, `12`, "{\n\t\"k\"\r: \"\\ud800\" }", "\"\xff\"", `{"\"":"a\\"}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var want any
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		err := d.Decode(&want)
		if err == nil && !json.Valid([]byte(text)) {
			t.Skip() // more than one
		}
		got, ok := slothttp.Read(text)
		if ok != (err == nil) {
			t.Fatalf("%q: read %v, want %v", text, ok, err)
		}
		if ok && !reflect.DeepEqual(got, withoutNulls(want)) {
			if strings.Contains(text, "null") {
				t.Skip() // a field that is there twice, and null once
			}
			t.Errorf("%q is read as %v, want %v", text, got, want)
		}
	})
}

// withoutNulls leaves out the fields that are null.
func withoutNulls(v any) any {
	switch v := v.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(_ string, f any) bool { return f == nil })
		for name, f := range v {
			v[name] = withoutNulls(f)
		}
	case []any:
		for i := range v {
			v[i] = withoutNulls(v[i])
		}
	}
	return v
}

// Whatever is posted is answered, and an answer of status 200 is one.
func FuzzHandler(f *testing.F) {
	for _, file := range []string{"testdata/methods.txt", "testdata/errors.txt"} {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			switch method, params, _ := strings.Cut(rest, " "); kind {
			case ">":
				f.Add(envelope(method, params))
			case ">>":
				f.Add(rest)
			}
		}
	}
	h := &slothttp.Handler{Limiter: newShelved()}
	f.Fuzz(func(t *testing.T, body string) {
		w := post(h, body)
		if w.Code == http.StatusBadRequest {
			return
		}
		var a struct {
			OK     *bool
			Result map[string]any
			Error  *struct{ Code, Message string }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &a); w.Code != 200 || err != nil || a.OK == nil {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if *a.OK != (a.Result != nil) || *a.OK == (a.Error != nil) || a.Error != nil && (a.Error.Code == "" || a.Error.Message == "") {
			t.Fatalf("neither an answer nor an error: %s", w.Body)
		}
		if strings.Contains(body, "close") { // for the next
			post(h, envelope("open", `{}`))
		}
	})
}
