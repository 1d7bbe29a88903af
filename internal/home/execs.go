package home

import (
	"crypto/rand"
	"encoding/hex"
	"io"
	"regexp"

	"github.com/gofrs/flock"
)

// HoldExec tells the proxy, until it is closed or the process ends, that a
// command uses it. It waits while a proxy is just leaving.
func (h Home) HoldExec() (io.Closer, error) {
	f := flock.New(h.execFile(), flock.SetPermissions(0o600))
	if err := f.RLock(); err != nil {
		return nil, h.unusable(err)
	}
	return f, nil
}

// NoExecs keeps commands from beginning to use the proxy, until it is closed.
// It is nil while one does.
func (h Home) NoExecs() io.Closer {
	f := flock.New(h.execFile(), flock.SetPermissions(0o600))
	if ok, err := f.TryLock(); err != nil || !ok {
		return nil
	}
	return f
}

// NewMark returns a mark for the requests of one command. It goes into its base
// URL as the purpose, so the records have it too.
func NewMark() string {
	b := make([]byte, 6)
	rand.Read(b) // never fails
	return "exec-" + hex.EncodeToString(b)
}

var mark = regexp.MustCompile(MarkPattern)

// MarkOf returns the mark in a base URL, empty where it has none.
func MarkOf(base string) string { return mark.FindString(base) }

// MarkPattern is the regular expression of marks.
const MarkPattern = `exec-[0-9a-f]{12}`

// CaughtPath, with a mark behind it, is where a proxy says how many requests
// with the mark have come.
const CaughtPath = "/control/caught/"

// Caught is its answer.
type Caught struct {
	Requests int `json:"requests"`
}
