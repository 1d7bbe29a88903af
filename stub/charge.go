package stub

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Charge is a rule by which a request counts in meters of tokens.
type Charge string

const (
	// ChargeProduced counts the input at admission, and the output when the
	// generation ends.
	ChargeProduced Charge = "produced"
	// ChargeUncached is that without what is read from a cache.
	ChargeUncached Charge = "uncached"
	// ChargeReserved counts the input and all that the request lets the answer
	// grow to at admission, and gives back what was not produced.
	ChargeReserved Charge = "reserved"
	// ChargeKept is that, and nothing is given back.
	ChargeKept Charge = "kept"
	// ChargeOpaque counts, at admission and for good, what no client can know:
	// something of the body's length, something of the bound, something more.
	ChargeOpaque Charge = "opaque"
)

// A Unit is what a [Meter] counts.
type Unit string

const (
	Requests     Unit = "requests"
	Tokens       Unit = "tokens"        // input and output
	InputTokens  Unit = "input_tokens"  // of prompts
	OutputTokens Unit = "output_tokens" // of answers
)

var (
	charges = []Charge{ChargeProduced, ChargeUncached, ChargeReserved, ChargeKept, ChargeOpaque}
	units   = []Unit{Requests, Tokens, InputTokens, OutputTokens}
)

// UsageHeader is a request header by which a client of a stub says what its
// request is to cost, for stubs that cannot know: "input=100000 cached=95000
// output=800", each of them optional, cached a part of input.
const UsageHeader = "X-Stub-Usage"

// A usage is what a request costs in tokens.
type usage struct{ input, cached, output int }

// usageOf is what a request is to cost: as it says, else its length and a few
// tokens of answer.
func usageOf(h http.Header, bytes int64) usage {
	u := usage{input: int((bytes + 3) / 4), output: completionTokens}
	for part := range strings.FieldsSeq(h.Get(UsageHeader)) {
		name, text, _ := strings.Cut(part, "=")
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			continue
		}
		switch name {
		case "input":
			u.input = int(n)
		case "cached":
			u.cached = int(n)
		case "output":
			u.output = int(n)
		}
	}
	u.cached = min(u.cached, u.input)
	return u
}

// cost is what a request counts at admission, by unit, and what is added or
// taken off when its generation ends.
func (c Charge) cost(a ask) (now, then map[Unit]int) {
	u, bound := a.cost, max(a.bound, a.cost.output)
	switch c {
	case ChargeReserved, ChargeKept:
		now = map[Unit]int{Tokens: u.input + bound, InputTokens: u.input, OutputTokens: bound}
		if c == ChargeReserved {
			then = map[Unit]int{Tokens: u.output - bound, OutputTokens: u.output - bound}
		}
	case ChargeOpaque:
		odd := int(a.bytes/3) + 200
		now = map[Unit]int{Tokens: odd + bound/4, InputTokens: odd, OutputTokens: bound / 4}
	default:
		if c == ChargeUncached {
			u.input -= u.cached
		}
		now = map[Unit]int{Tokens: u.input, InputTokens: u.input}
		then = map[Unit]int{Tokens: u.output, OutputTokens: u.output}
	}
	now[Requests] = 1
	return now, then
}

// A due is what is still to be counted for a generation that ends.
type due struct {
	at, admitted time.Time
	cost         map[Unit]int
}

// owe puts off a cost until its instant. It needs the lock.
func (s *Stub) owe(d due) {
	i, _ := slices.BinarySearchFunc(s.dues, d, func(a, b due) int {
		return cmp.Or(a.at.Compare(b.at), -1) // of one instant the earlier comes first
	})
	s.dues = slices.Insert(s.dues, i, d)
}

// settle counts what has come due. It needs the lock.
func (s *Stub) settle(d due) {
	for i, m := range s.meters {
		switch n := d.cost[s.units[i]]; {
		case n > 0:
			m.take(d.at, n)
		case n < 0:
			m.give(d.at, d.admitted, -n)
		}
	}
}
