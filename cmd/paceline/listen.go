package main

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"time"
)

// A server is an HTTP server on a socket, until it is closed.
type server struct {
	http   *http.Server
	url    string
	failed chan error // gets why it stopped serving, if it did by itself
}

// serve answers at l with h.
func serve(l net.Listener, h http.Handler) *server {
	s := &server{
		http: &http.Server{
			Handler: h,
			// A body and an answer may take as long as they like: prompts are
			// large and generations long.
			ReadHeaderTimeout: 10 * time.Second,
			IdleTimeout:       2 * time.Minute,
			MaxHeaderBytes:    64 << 10,
			// What a client does wrong is not this program's news.
			ErrorLog: log.New(io.Discard, "", 0),
		},
		url:    "http://" + reachable(l.Addr()),
		failed: make(chan error, 1),
	}
	go func() {
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- err
		}
	}()
	return s
}

// close lets short answers end and cuts the others.
func (s *server) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
}

// reachable is an address a client on this machine can use.
func reachable(a net.Addr) string {
	host, port, err := net.SplitHostPort(a.String())
	if ip := net.ParseIP(host); err == nil && ip.IsUnspecified() {
		return net.JoinHostPort("localhost", port)
	}
	return a.String()
}
