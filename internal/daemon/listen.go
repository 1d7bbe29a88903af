package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Listen opens every address: HOST:PORT or unix:PATH. localhost is both
// loopbacks at one port. Where one fails, none stays open.
func Listen(ctx context.Context, addrs []string) (all []net.Listener, err error) {
	defer func() {
		if err != nil {
			closeAll(all)
			all = nil
		}
	}()
	if len(addrs) == 0 {
		return nil, errors.New("there is no address to listen at: give --listen, or listen: in the configuration")
	}
	for _, addr := range addrs {
		ls, err := listenAt(ctx, addr)
		if err != nil {
			return all, err
		}
		all = append(all, ls...)
	}
	return all, nil
}

func listenAt(ctx context.Context, addr string) ([]net.Listener, error) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		l, err := listenUnix(ctx, path)
		if err != nil {
			return nil, err
		}
		return []net.Listener{l}, nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("cannot listen at %q: give HOST:PORT such as localhost:8790, or unix:PATH", addr)
	}
	if host == "localhost" {
		return listenLoopbacks(ctx, port)
	}
	l, err := tcp(ctx, host, port)
	if err != nil {
		return nil, err
	}
	return []net.Listener{l}, nil
}

// listenLoopbacks listens at one port of both loopbacks, or of 127.0.0.1 alone
// where the machine has no IPv6.
func listenLoopbacks(ctx context.Context, port string) ([]net.Listener, error) {
	for try := 0; ; try++ {
		four, err := tcp(ctx, "127.0.0.1", port)
		if err != nil {
			return nil, err
		}
		_, bound, _ := net.SplitHostPort(four.Addr().String())
		six, err := tcp(ctx, "::1", bound)
		switch {
		case err == nil:
			return []net.Listener{four, six}, nil
		case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EAFNOSUPPORT), errors.Is(err, syscall.EPROTONOSUPPORT):
			return []net.Listener{four}, nil
		}
		four.Close()
		// A port that was drawn on the one may be taken on the other.
		if port != "0" || try == 10 {
			return nil, err
		}
	}
}

func tcp(ctx context.Context, host, port string) (net.Listener, error) {
	var c net.ListenConfig
	addr := net.JoinHostPort(host, port)
	l, err := c.Listen(ctx, "tcp", addr)
	if err == nil {
		return l, nil
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		if n, e := strconv.Atoi(port); e == nil {
			if who := portOwner(n); who != "" {
				return nil, fmt.Errorf("cannot listen at %s: %s has it: %w", addr, who, err)
			}
		}
	}
	return nil, fmt.Errorf("cannot listen at %s: %w", addr, err)
}

// listenUnix listens at a socket that only its owner may use. One that a dead
// process has left is removed; any other file stays.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("cannot listen at unix:%s: %w", path, err)
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("cannot listen at unix:%s: there is a file that is no socket; move it away", path)
	default:
		var d net.Dialer
		c, err := d.DialContext(ctx, "unix", path)
		if err == nil {
			c.Close()
			return nil, fmt.Errorf("cannot listen at unix:%s: another process does: %w", path, syscall.EADDRINUSE)
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, fmt.Errorf("cannot listen at unix:%s: %w", path, err)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("cannot listen at unix:%s: %w", path, err)
		}
	}
	var c net.ListenConfig
	l, err := c.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("cannot listen at unix:%s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("cannot listen at unix:%s: %w", path, err)
	}
	return l, nil
}

func closeAll(ls []net.Listener) {
	for _, l := range ls {
		l.Close()
	}
}

// recorded is what server.json says of the listeners: the address a client on
// this machine uses, a loopback one before others, a socket where there is no
// network.
func recorded(ls []net.Listener) (host string, port int) {
	var addrs []*net.TCPAddr
	for _, l := range ls {
		if a, ok := l.Addr().(*net.TCPAddr); ok {
			addrs = append(addrs, a)
		}
	}
	if len(addrs) == 0 {
		return "unix:" + ls[0].Addr().String(), 0
	}
	at := addrs[max(0, slices.IndexFunc(addrs, func(a *net.TCPAddr) bool { return a.IP.IsLoopback() }))]
	switch {
	case !at.IP.IsUnspecified():
		return at.IP.String(), at.Port
	case at.IP.To4() != nil || len(at.IP) == 0:
		return "127.0.0.1", at.Port
	}
	return "::1", at.Port
}
