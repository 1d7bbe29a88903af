// Package paceline keeps every request a program sends with an API key inside
// the provider's rate limits. A request waits for its turn instead of failing,
// nothing is sent before a stated wait is over, and the whole allowance gets
// used.
//
// [Transport] is an [net/http.RoundTripper]: give it to the HTTP client of any
// SDK.
//
//	client := &http.Client{Transport: &paceline.Transport{}}
//
// Declared rates bind one process: two processes with the same limits send
// twice as much, unless they share a [limiter.Limiter] that spans them.
//
// # The path of a request
//
// Every request takes one path, read top to bottom in [Transport.RoundTrip]:
// it is routed to a provider's entry, stands in the one line of its caller
// key, is sent at the single send site, and its answer is read for what it
// says of limits before it is handed on. A refusal goes back into the line and
// keeps its place there.
package paceline
