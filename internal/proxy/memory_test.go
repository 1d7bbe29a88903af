package proxy_test

import (
	"net"
	"sync"
)

// A listener takes connections of memory, for tests in a bubble.
type listener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newListener() *listener {
	return &listener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr is that of a loopback connection.
func (l *listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// dial returns the client's end of a new connection.
func (l *listener) dial() net.Conn {
	client, server := net.Pipe()
	l.conns <- loopback{server}
	return client
}

type loopback struct{ net.Conn }

func (loopback) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
func (loopback) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2} }
