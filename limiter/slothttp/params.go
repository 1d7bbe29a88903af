package slothttp

import (
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// faults gathers what is missing in a call's params, or impossible.
type faults struct{ errs []error }

func (f *faults) add(at *path, format string, args ...any) {
	f.errs = append(f.errs, errors.New(at.String()+" "+fmt.Sprintf(format, args...))) // so that no path has to be kept
}

func (f *faults) err() error {
	if f.errs == nil {
		return nil
	}
	return &callError{InvalidParams, errors.Join(f.errs...)}
}

// A path is where a value is, such as limits[0].calls. It costs nothing while
// nothing is wrong.
type path struct {
	up    *path
	name  string
	index int // -1: it is not in a list
}

func (p *path) String() string {
	if p == nil {
		return "params"
	}
	says := p.name
	if p.index >= 0 {
		says = fmt.Sprintf("%s[%d]", p.name, p.index)
	}
	if p.up != nil {
		says = p.up.String() + "." + says
	}
	return says
}

// mostCount is the largest number that every language's JSON keeps exact.
const mostCount = 1<<53 - 1

func (f *faults) object(v value, at *path) bool {
	if v.is('{') {
		return true
	}
	f.add(at, "is %s: it has to be an object", v.shown())
	return false
}

func (f *faults) list(v value, at *path) bool {
	if v.is('[') {
		return true
	}
	f.add(at, "is %s: it has to be a list", v.shown())
	return false
}

func (f *faults) text(v value, at *path) string {
	if v.is('"') {
		return v.text()
	}
	f.add(at, "is %s: it has to be a text", v.shown())
	return ""
}

func (f *faults) whole(v value, at *path, least, most int64) int64 {
	n, ok := v.whole()
	if ok && n >= least && n <= most {
		return n
	}
	f.add(at, "is %s: give a whole number from %d to %d", v.shown(), least, most)
	return 0
}

func (f *faults) instant(v value, at *path) time.Time {
	if v.is('"') {
		if t, ok := parseInstant(v.text()); ok {
			return t
		}
	}
	f.add(at, "is no instant: write it as %s", instantForm)
	return time.Time{}
}

func (f *faults) missing(at *path, name string) { f.add(&path{at, name, -1}, "is missing") }

func (f *faults) request(v value, at *path) (r limiter.Request) {
	if !f.object(v, at) {
		return r
	}
	var key, limits bool
	for name, v := range v.fields() {
		switch string(name) {
		case "key":
			key, r.Key = true, f.text(v, &path{at, "key", -1})
		case "limits":
			limits, r.Limits = true, f.limits(v, at)
		case "cost":
			r.Cost = int(f.whole(v, &path{at, "cost", -1}, 1, mostCount))
		case "holdMs":
			r.Hold = span(f.whole(v, &path{at, "holdMs", -1}, 1, mostMs))
		}
	}
	if !key {
		f.missing(at, "key")
	}
	if !limits {
		f.missing(at, "limits")
	}
	return r
}

// limits reads the list of that name in what is at a path.
func (f *faults) limits(v value, at *path) []limiter.Limit {
	if !f.list(v, &path{at, "limits", -1}) {
		return nil
	}
	limits := make([]limiter.Limit, 0, 4)
	for i, v := range v.items() {
		here := path{at, "limits", i}
		limits = append(limits, f.limit(v, &here))
	}
	return limits
}

func (f *faults) limit(v value, at *path) (l limiter.Limit) {
	if !f.object(v, at) {
		return l
	}
	key := false
	for name, v := range v.fields() {
		switch string(name) {
		case "key":
			key, l.Key = true, f.text(v, &path{at, "key", -1})
		case "calls":
			l.Calls = int(f.whole(v, &path{at, "calls", -1}, 1, mostCount))
		case "perMs":
			l.Per = span(f.whole(v, &path{at, "perMs", -1}, 1, mostMs))
		case "concurrent":
			l.Concurrent = int(f.whole(v, &path{at, "concurrent", -1}, 1, mostCount))
		case "cost":
			l.Cost = int(f.whole(v, &path{at, "cost", -1}, 1, mostCount))
		}
	}
	if !key {
		f.missing(at, "key")
	}
	return l
}

func (f *faults) costs(v value) []limiter.Cost {
	costs := []limiter.Cost{}
	if !f.list(v, &path{nil, "costs", -1}) {
		return nil
	}
	for i, v := range v.items() {
		var c limiter.Cost
		at := path{nil, "costs", i}
		f.read(v, &at,
			field{"key", true, func(v value, at *path) { c.Key = f.text(v, at) }},
			field{"cost", true, func(v value, at *path) { c.Cost = int(f.whole(v, at, 0, mostCount)) }})
		costs = append(costs, c)
	}
	return costs
}

// blob is bytes in base64, nil where they are null.
func (f *faults) blob(v value, at *path) []byte {
	b, err := base64.StdEncoding.DecodeString(f.text(v, at))
	if err != nil {
		f.add(at, "is no base64")
	}
	return b
}

// A field is one of an object's.
type field struct {
	name   string
	needed bool
	take   func(v value, at *path)
}

// read takes the fields of an object that are known.
func (f *faults) read(v value, at *path, fields ...field) {
	if !f.object(v, at) {
		return
	}
	for name, v := range v.fields() {
		for i := range fields {
			if fields[i].name == string(name) {
				fields[i].needed = false
				fields[i].take(v, &path{at, fields[i].name, -1})
			}
		}
	}
	for _, known := range fields {
		if known.needed {
			f.missing(at, known.name)
		}
	}
}
