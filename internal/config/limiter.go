package config

import (
	"bytes"
	"errors"
	"strings"

	"github.com/goccy/go-yaml/ast"

	slot "github.com/paceline-proxy/paceline/internal/slot/address"
)

// place is the address of a limiter. It may hold a password, so it is shown
// without, and may be in a file of its own, as a secret.
type place struct{ p *string }

func (k place) read(r *reader, n ast.Node, path string) {
	s, ok := r.scalar(n, path, k.says())
	if !ok {
		return
	}
	bad := func(problem, advice string) { r.fault(n, path, problem, advice) }
	at, shown := s.value, ""
	if name, ok := strings.CutPrefix(at, "file:"); ok {
		b, info, err := readFile(r.resolvePath(name), mostSecret)
		if b = bytes.TrimSpace(b); err == nil && len(b) == 0 {
			err = errors.New("is empty")
		}
		if err != nil {
			bad("the file of the address "+err.Error(), "write file: and the path of a file that holds the address alone")
			return
		}
		if othersRead(info) && slot.HasPassword(string(b)) {
			r.warn(path, "the file of the address can be read by other users, and has a password in it", "chmod 600 it")
		}
		at, shown = string(b), "what the file says "
	} else if s.raw == s.value && slot.HasPassword(at) {
		r.plain = append(r.plain, path)
	}
	if fault := slot.Check(at); fault != nil {
		bad(shown+fault.Problem, fault.Advice) // a password may be anywhere in it
		return
	}
	switch scheme := slot.Scheme(at); scheme {
	case "sqlite", "unix":
		// Whoever opens it may run in another directory.
		file, settings, has := strings.Cut(slot.Rest(at), "?")
		at = scheme + ":" + r.resolvePath(file)
		if has {
			at += "?" + settings
		}
	}
	*k.p = at
}

func (k place) show() any { return escaped(slot.Redacted(*k.p)) }

func (k place) says() string    { return slot.Says + "; or file:FILE, a file that holds one of these" }
func (k place) schema() *schema { return &schema{Type: "string"} }

// checkLimiter says what has no effect, and what is said twice.
func (c *Config) checkLimiter(r *reader) {
	l, usual := c.Limiter, Default().Limiter
	if l.URL == "memory" {
		for name, odd := range map[string]bool{
			"onFailure": l.OnFailure != usual.OnFailure, "localShare": l.Share != usual.Share, "timeoutMs": l.Timeout != usual.Timeout,
			"secret": l.Secret != "",
		} {
			if odd {
				r.warn("limiter."+name, "has no effect: a limiter in memory is never out of reach", "leave it out, or write under limiter.url where others share it")
			}
		}
		return
	}
	if l.Secret == "" {
		return
	}
	switch slot.Scheme(l.URL) {
	case "sqlite", "module":
		r.warn("limiter.secret", "has no effect: "+slot.Scheme(l.URL)+" takes none", "leave it out")
	default:
		if slot.HasPassword(l.URL) {
			r.faultAt("limiter.secret", "is beside a password in limiter.url", "keep one of the two")
		}
	}
}
