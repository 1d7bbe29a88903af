// Package slothttp is the slot over HTTP: a [Handler] serves any limiter, and a
// [Client] is one. What they speak is adapter protocol 2, so either end may be
// written in another language; docs/slot.md shows it with curl.
//
// # The wire
//
// A call is a POST of one JSON object to one URL:
//
//	{"protocolVersion": "2", "method": "acquire", "params": {…}}
//
// An answer has the status 200 and is one of
//
//	{"ok": true, "result": {…}}
//	{"ok": false, "error": {"code": "invalid_params", "message": "…", "retryable": false}}
//
// Whatever has another status is a fault of the transport, and may be tried
// again. The secret, where there is one, comes as Authorization: Bearer. GET of
// /health answers 200 while the process runs.
//
// Instants are UTC with three decimals, such as 2026-11-29T12:00:00.000Z,
// rounded up. Spans are whole milliseconds. A number that says nothing is left
// out: 0 is invalid where a count, a span or a cost of a request is expected.
// Fields that are not known are passed over.
//
//	method        params                                       result
//	open          settings?                                    {}
//	acquire       key, limits: [{key, calls?, perMs?,          {granted: true, permit, now} or
//	              concurrent?, cost?}], cost?, holdMs?         {granted: false, now, retryAt, retryAfterMs,
//	                                                           refused: [{key, cause, retryAt}]}
//	acquireBatch  requests: those of acquire                   results, in order
//	settle        permit, costs: [{key, cost}]                 {}
//	release       permit, costs?                               {}
//	renew         permits, holdMs                              {}
//	throttle      key, until, forMs?                           {}
//	openKey       key                                          {}
//	close                                                      {}
//	peek          key, limits                                  now, throttled?, usage: [{used, held}]
//	seed          limits, agoMs                                {}
//	get           key                                          value, base64 or null
//	swap          key, old, new: base64 or null                swapped, or else value
//
// The first three methods of a limiter, acquire, release and throttle, and open
// and close are all that has to be there. What is missing of the others answers
// unknown_method, and a Client goes on without it.
package slothttp
