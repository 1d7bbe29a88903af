package paceline

import "time"

// A Queue is how requests wait in a program that serves clients it does not
// control, such as a proxy. The zero Queue is that of a library: how long a
// request waits is said by its context and X-Paceline-Max-Wait, a place in line
// ends with the request, and nothing bounds how many wait.
type Queue struct {
	// ClientTimeout is how long clients are known to wait for an answer, 0 where
	// that is not known. The least of it, the context, X-Paceline-Max-Wait, and
	// X-Stainless-Timeout and X-Stainless-Read-Timeout (which SDKs send, in
	// seconds) is how long a client waits; at 90 % of it a request that waits
	// is answered 429 with Retry-After: 1, X-Should-Retry: true and
	// X-Paceline-Refused: queue, so that it is not left to time out in silence.
	ClientTimeout time.Duration
	// Keep is how long a place in line outlives the connection of its request:
	// the same client that sends the same path, model and body takes it again.
	// 0: not at all.
	Keep time.Duration
	// MaxWaiting bounds the requests that wait, MaxHeldBytes the bodies kept
	// while they may have to be sent again. What goes beyond is answered 503
	// with Retry-After and X-Paceline-Refused: bounds. 0: no bound.
	MaxWaiting   int
	MaxHeldBytes int64
}

// A Client is what is declared for those who name themselves in
// X-Paceline-Client.
type Client struct {
	// MaxConcurrent bounds the client's requests in flight, over all
	// providers. 0: no bound.
	MaxConcurrent int
}

// A Quota is what becomes of requests that meet a spent quota.
type Quota string

// What becomes of them.
const (
	// QuotaFail hands the refusal back where the quota's reset is farther off
	// than Retry.MaxWait. The default, but for background requests.
	QuotaFail Quota = "fail"
	// QuotaWait waits for the reset, without bound.
	QuotaWait Quota = "wait"
)
