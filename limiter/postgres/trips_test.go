package postgres_test

import (
	"context"
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
	p := listenBetween(t, server)
	l := open(t, p.url, postgres.Options{})
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
		before := p.messages.Load()
		for range 20 {
			if err := call(); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		if n := p.messages.Load() - before; n != 20 {
			t.Errorf("%s: %d messages for 20 calls", what, n)
		}
	}
}

// Whoever was not told of a grant does not hold its place until it lapses.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	server := database(t)
	p := listenBetween(t, server)
	l := open(t, p.url, postgres.Options{})
	r := limiter.Request{Key: "c", Hold: time.Hour, Limits: []limiter.Limit{{Key: "a", Calls: 9, Per: time.Hour}, {Key: "p", Concurrent: 1}}}
	p.deaf.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if d, err := l.Acquire(ctx, r); err == nil {
		t.Fatalf("answered by nobody: %+v", d)
	}
	p.deaf.Store(false)
	for deadline := time.Now().Add(abandonWithin); ; time.Sleep(10 * time.Millisecond) {
		d, err := l.Acquire(t.Context(), r)
		if err == nil && d.Granted {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the place is still taken: %+v, %v", d, err)
		}
	}
	if v, err := l.Peek(t.Context(), "c", r.Limits); err != nil || v.Usage[0].Used != 2 {
		t.Errorf("%+v, %v: the call that nobody was told of was granted, and stays counted", v.Usage, err)
	}
}

const abandonWithin = 10 * time.Second

// A between passes on what is said between clients and a server.
type between struct {
	url      string
	messages atomic.Int64 // how many the clients have sent
	deaf     atomic.Bool  // whether no answer comes through
}

func listenBetween(t *testing.T, server string) *between {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	target := u.Host
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	u.Host = listener.Addr().String()
	b := &between{url: u.String()}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go b.pass(client, target)
		}
	}()
	return b
}

func (b *between) pass(client net.Conn, target string) {
	defer client.Close()
	there, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer there.Close()
	go b.answer(client, there)
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
		if b.deaf.Load() && first { // or it would be a request to cancel
			return
		}
		if !first && head[0] != 'X' {
			b.messages.Add(1)
		}
		there.Write(append(head, body...))
	}
}

func (b *between) answer(client, there net.Conn) {
	defer client.Close()
	buffer := make([]byte, 1<<16)
	for {
		n, err := there.Read(buffer)
		if err != nil {
			return
		}
		if !b.deaf.Load() {
			client.Write(buffer[:n])
		}
	}
}
