package proxy

import (
	"context"
	"net"
	"net/http"
	"sync"
)

type peerKey struct{}

// ConnContext is for http.Server.ConnContext: it remembers, once for each
// connection, whether its other end is a process of this user. Without it
// nobody is.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, sync.OnceValue(func() bool { return ofThisUser(c) }))
}

// sameUser reports whether a request comes from a process of the user who runs
// the proxy.
func sameUser(r *http.Request) bool {
	is, ok := r.Context().Value(peerKey{}).(func() bool)
	return ok && is()
}
