package proxy

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// deadlines is a ResponseWriter of HTTP/2: once its handler has returned,
// setting a deadline is a nil dereference.
type deadlines struct {
	http.ResponseWriter
	returned bool
	t        *testing.T
}

func (d *deadlines) SetReadDeadline(time.Time) error {
	if d.returned {
		d.t.Error("a deadline was set for a request that is over")
	}
	return nil
}

// A transport may be reading a body still when the answer is made, and goes
// on after it.
func TestBodyOutlivesItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deadlines{t: t}
		from, to := io.Pipe()
		b := &body{ReadCloser: from, deadline: http.NewResponseController(d)}
		go io.Copy(io.Discard, b)
		to.Write([]byte("x"))
		synctest.Wait()
		b.leave()
		d.returned = true
		to.Close()
		synctest.Wait()
		if n, err := b.Read(make([]byte, 1)); n > 0 || err != http.ErrBodyReadAfterClose {
			t.Errorf("then %d, %v", n, err)
		}
	})
}
