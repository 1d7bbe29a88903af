package slothttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"

	"github.com/paceline-proxy/paceline/limiter"
)

// An Error is why a call of a Client failed. It names the limiter, by its URL
// without what is secret in it, and says what to do. It wraps limiter.ErrInvalid where
// the limiter blames the request, and errors.ErrUnsupported where it has no
// such method.
type Error struct {
	// Limiter is which one, such as "the limiter at http://localhost:8793".
	Limiter string
	Method  string
	// Code is what the limiter answered. Empty: it was not reached, or what
	// answered speaks something else.
	Code string
	// Retryable says that the same call may work a little later.
	Retryable bool
	// Advice is what to do about it. It may be empty.
	Advice string

	err error
}

func (e *Error) Error() string {
	says := e.Limiter + ": " + e.Method + ": "
	if e.Code != "" {
		says += e.Code + ": "
	}
	says += e.err.Error()
	if e.Advice != "" {
		says += "; " + e.Advice
	}
	return says
}

func (e *Error) Unwrap() error { return e.err }

// said is an error that keeps another one out of its own text.
type said struct {
	text string
	is   error
}

func (s said) Error() string { return s.text }
func (s said) Unwrap() error { return s.is }

// blamed is what a limiter's own error means to a caller.
func (t *target) blamed(method string, f fault) *Error {
	e := &Error{Limiter: t.name, Method: method, Code: f.Code, Retryable: f.Retryable, err: errors.New(clean(f.Message))}
	switch f.Code {
	case InvalidParams:
		e.err = said{clean(f.Message), limiter.ErrInvalid}
	case UnknownMethod:
		e.err = said{clean(f.Message), errors.ErrUnsupported}
	case Unauthorized:
		e.Advice = showSecret
	case UnsupportedVersion:
		e.Advice = "it speaks another version than adapter protocol 2: use a release of it that does"
	case Unavailable:
		e.Advice = "see the log of the limiter"
	}
	return e
}

const showSecret = "give it the secret that it was started with: limiter.secret in paceline.yaml, Options.Secret in a program"

// unreached is a fault of the transport.
func (t *target) unreached(ctx context.Context, method string, err error) *Error {
	e := &Error{Limiter: t.name, Method: method, Retryable: true, err: err}
	if u, ok := errors.AsType[*url.Error](err); ok {
		e.err = u.Err // it repeats the URL
	}
	switch {
	case ctx.Err() != nil:
		e.err = said{"no answer in time", context.Cause(ctx)}
		if errors.Is(ctx.Err(), context.Canceled) {
			e.err = said{"given up", context.Cause(ctx)}
		}
		e.Advice = "is it running, and not overloaded?"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.EHOSTUNREACH):
		e.Advice = t.down
	case errors.Is(err, syscall.EACCES):
		e.Advice = "the socket belongs to another user: run both as one, or use TCP and a secret"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		e.err = said{"it closed the connection without an answer", err}
		e.Advice = "it may have died: see its log"
	default:
		if dns, ok := errors.AsType[*net.DNSError](err); ok {
			e.err = said{"there is no host " + dns.Name, err}
			e.Advice = "correct its address"
		}
	}
	return e
}

// nonsense is an answer that is none.
func (t *target) nonsense(method, format string, args ...any) *Error {
	return &Error{Limiter: t.name, Method: method, err: fmt.Errorf(format, args...),
		Advice: "is it a limiter of adapter protocol 2?"}
}

// clean is a text of somebody else's in one short line.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 300 {
		s = string(r[:300]) + "…"
	}
	return s
}
