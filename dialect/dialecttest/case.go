// Package dialecttest holds a dialect to golden cases: responses as they were
// seen, with the right reading. A case is a JSON file, so that a provider's
// next surprise is added without writing Go.
package dialecttest

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/paceline-proxy/paceline/dialect"
)

// A Case is one response and what it means.
type Case struct {
	// Name is the file's, without its extension.
	Name string `json:"-"`

	Provider   string            `json:"provider"`
	Source     string            `json:"source"`
	ObservedAt time.Time         `json:"observed_at"`
	Status     int               `json:"status"`
	Headers    map[string]Values `json:"headers"`
	Body       string            `json:"body"`
	Expect     Expect            `json:"expect"`
	// Why says in a sentence what the case is there to catch.
	Why string `json:"why"`
}

// Values are the lines of one header: a string in the file, or a list where
// the header was sent more than once.
type Values []string

// UnmarshalJSON reads either form.
func (v *Values) UnmarshalJSON(b []byte) error {
	if strings.HasPrefix(strings.TrimSpace(string(b)), "[") {
		return json.Unmarshal(b, (*[]string)(v))
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	*v = Values{s}
	return nil
}

// Expect is the right reading of a case.
type Expect struct {
	Class dialect.Class `json:"class"`
	// WaitMS is from ObservedAt, rounded up; nil where nothing was said.
	WaitMS *int64 `json:"wait_ms"`
	// Buckets in any order.
	Buckets []Bucket `json:"buckets"`
}

// A Bucket is the part of a snapshot that cases speak about; nil is not said.
type Bucket struct {
	Unit      string     `json:"unit"`
	Window    string     `json:"window"`
	Limit     *int64     `json:"limit"`
	Remaining *int64     `json:"remaining"`
	ResetAt   *time.Time `json:"reset_at"`
}

// Load reads every .json file in a file system and below, in order of name.
func Load(fsys fs.FS) ([]Case, error) {
	var cases []Case
	err := fs.WalkDir(fsys, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || path.Ext(name) != ".json" {
			return err
		}
		b, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		c := Case{Name: strings.TrimSuffix(path.Base(name), ".json")}
		if err := json.Unmarshal(b, &c); err != nil {
			return fmt.Errorf("reading case %s: %w", name, err)
		}
		cases = append(cases, c)
		return nil
	})
	return cases, err
}

// Head is the response's head as a client would have got it.
func (c Case) Head() dialect.Head {
	h := dialect.Head{Status: c.Status, Header: make(http.Header), Received: c.ObservedAt}
	for name, values := range c.Headers {
		key := http.CanonicalHeaderKey(name)
		h.Header[key] = append(h.Header[key], values...)
	}
	if date, err := http.ParseTime(h.Header.Get("Date")); err == nil {
		h.Date = date
	}
	return h
}
