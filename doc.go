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
// # Headers
//
// What a request says to paceline in headers is taken out before it is sent:
//
//	X-Paceline-Max-Wait           how long to wait for a turn at most: 90s
//	X-Paceline-Wait-For-Capacity  1: wait for any pause, and count no retries
//	X-Paceline-Priority           interactive, normal or background: who goes first
//	X-Paceline-Client             whose request it is: clients take turns
//	X-Paceline-Quota              wait or fail: what to do when a quota is spent
//	X-Paceline-Request-Id         what its records and OnWait call it
//	X-Paceline-Purpose, -Run      are noted in its records
//
// An answer carries X-Paceline-Attempts, the number of times its request was
// sent, and X-Paceline-Queued-Ms, how long it stood in line. A request that was
// not sent at all is answered in the provider's place, with X-Paceline-Refused:
// pause (the key is closed for longer than the caller waits), quota (a spent
// quota closes it), deadline (its turn cannot come in time), and where there is
// a [Queue]: queue (its client is about to give up), bounds (too many wait) or
// drain (this process is ending). X-Should-Retry: false on
// a refusal, which the SDKs of OpenAI and Anthropic obey, keeps them from
// repeating what has been repeated here. A lost connection is an error and has no
// headers: turn their own retries off.
//
// # The path of a request
//
// Every request takes one path, read top to bottom in [Transport.RoundTrip]:
// it is routed to a provider's entry, stands in the one line of its caller
// key, is sent at the single send site, and its answer is read for what it
// says of limits before it is handed on. A refusal goes back into the line and
// keeps its place there.
package paceline
