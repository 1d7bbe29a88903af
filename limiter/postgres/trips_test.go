package postgres_test

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/postgres"
)

// Each acquire, and each batch, is one message there and one answer back.
func TestOneRoundTrip(t *testing.T) {
	t.Parallel()
	server := database(t)
	between, messages := listenBetween(t, server)
	l := open(t, between, postgres.Options{})
	r := limiter.Request{Key: "c", Hold: time.Minute, Limits: []limiter.Limit{
		{Key: "a", Calls: 40, Per: time.Minute, Cost: 1}, {Key: "a", Calls: 50, Per: time.Hour}, {Key: "p", Concurrent: 90}}}
	dear := r
	dear.Cost = 2
	batch := []limiter.Request{r, r, dear, r, r}
	for what, call := range map[string]func() error{
		"acquire":  func() error { _, err := l.Acquire(t.Context(), r); return err },
		"batch":    func() error { _, err := l.AcquireBatch(t.Context(), batch); return err },
		"throttle": func() error { return l.Throttle(t.Context(), "other", time.Now().Add(time.Minute)) },
		"renew":    func() error { return l.Renew(t.Context(), []string{"0000000000000001"}, time.Minute) },
	} {
		before := messages.Load()
		for range 20 {
			if err := call(); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		if n := messages.Load() - before; n != 20 {
			t.Errorf("%s: %d messages for 20 calls", what, n)
		}
	}
}

// listenBetween passes on what is said between clients and a server, and counts the
// clients' messages.
func listenBetween(t *testing.T, server string) (between string, messages *atomic.Int64) {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	messages = new(atomic.Int64)
	target := u.Host
	pass := func(client net.Conn) {
		defer client.Close()
		there, err := net.Dial("tcp", target)
		if err != nil {
			return
		}
		defer there.Close()
		go func() {
			defer client.Close()
			io.Copy(client, there)
		}()
		for first := true; ; first = false {
			head := make([]byte, 5) // a letter, which the first one lacks, and a length
			if first {
				head = head[:4]
			}
			if _, err := io.ReadFull(client, head); err != nil {
				return
			}
			body := make([]byte, binary.BigEndian.Uint32(head[len(head)-4:])-4)
			if _, err := io.ReadFull(client, body); err != nil {
				return
			}
			if !first && head[0] != 'X' {
				messages.Add(1)
			}
			there.Write(append(head, body...))
		}
	}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go pass(client)
		}
	}()
	u.Host = listener.Addr().String()
	return u.String(), messages
}
