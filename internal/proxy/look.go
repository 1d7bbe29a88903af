package proxy

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// An ask is what the proxy looks at of a request's body. What cannot be read
// says nothing: the provider will say what is wrong with it.
type ask struct {
	Model  string `json:"model"`
	Stream bool   `json:"stream"`
}

// look reads a body of at most so many bytes and puts it back. A longer one is
// passed on unseen.
func (j *journey) look(r *http.Request, most int64) *ask {
	var a ask
	read, err := io.ReadAll(io.LimitReader(j.body, most+1))
	if err == nil && int64(len(read)) <= most {
		json.Unmarshal(read, &a) // it may be no JSON
		r.Body = io.NopCloser(bytes.NewReader(read))
		return &a
	}
	// An error comes again with the next Read.
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(read), j.body), j.body}
	return &a
}

// byModel sends a request for NAME/MODEL to the provider of that name: one of
// the file, with a stored key.
func (s *state) byModel(j *journey, a *ask, t target) {
	name, model, ok := strings.Cut(a.Model, "/")
	if !ok || model == "" {
		return
	}
	if up := s.upstreams[name]; up != nil && up.listed && up.keyed() {
		j.foreign = up != j.up
		j.to(up, t, http.MethodPost)
		j.route.Model = model
	}
}

// routesByModel reports whether the model of a request may choose its
// provider: on /v1/…, where the client has brought no key of its own.
func (s *state) routesByModel(t target, c *caller) bool {
	if t.name != "" || c.own != "" {
		return false
	}
	for _, up := range s.upstreams {
		if up.listed && up.keyed() {
			return true
		}
	}
	return false
}

// mayHold reports whether a request has a body worth a look.
func mayHold(r *http.Request) bool {
	return r.Method == http.MethodPost && r.ContentLength != 0 && r.Header.Get("Content-Encoding") == ""
}
