package config

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/paceline-proxy/paceline/internal/spelling"
)

// A kind is what a value may be, and the variable it is read into. One table
// of them reads a file, shows a configuration, and makes its schema and its
// documentation.
type kind interface {
	// read takes the value, or says what is wrong with it and leaves the
	// variable alone.
	read(r *reader, n ast.Node, path string)
	// show is the variable's value as a file would say it; nil where it is not
	// set.
	show() any
	// says is what to write: "a whole number from 1 on".
	says() string
	schema() *schema
}

// text is a string. check says what is wrong with it.
type text[T ~string] struct {
	p     *T
	what  string
	check func(value T) (problem, advice string)
}

func (k text[T]) read(r *reader, n ast.Node, path string) {
	s, ok := r.scalar(n, path, k.what)
	if !ok {
		return
	}
	if k.check != nil {
		if problem, advice := k.check(T(s.value)); problem != "" {
			r.fault(n, path, quoted(s.raw)+" "+problem, advice)
			return
		}
	}
	*k.p = T(s.value)
}

func (k text[T]) show() any {
	if *k.p == "" {
		return nil
	}
	return escaped(userInfo.ReplaceAllString(string(*k.p), "//hidden@"))
}

// userInfo is what may be a password in a URL.
var userInfo = regexp.MustCompile(`//[^/@\s]*@`)

func (k text[T]) says() string    { return k.what }
func (k text[T]) schema() *schema { return &schema{Type: "string"} }

// escaped is a text as the file has to say it.
func escaped(s string) string { return strings.ReplaceAll(s, "$", "$$") }

// word is one of a few.
type word[T ~string] struct {
	p     *T
	words []T
}

func oneOf[T ~string](p *T, words ...T) word[T] { return word[T]{p, words} }

func (k word[T]) strings() []string {
	out := make([]string, len(k.words))
	for i, w := range k.words {
		out[i] = string(w)
	}
	return out
}

func (k word[T]) read(r *reader, n ast.Node, path string) {
	s, ok := r.scalar(n, path, k.says())
	if !ok {
		return
	}
	for _, w := range k.words {
		if s.value == string(w) {
			*k.p = w
			return
		}
	}
	r.fault(n, path, quoted(s.raw)+" is not allowed"+didYouMean(s.raw, k.strings()), "write "+k.says())
}

func (k word[T]) show() any {
	if *k.p == "" {
		return nil
	}
	return string(*k.p)
}

func (k word[T]) says() string { return either(k.strings()) }

func (k word[T]) schema() *schema {
	return &schema{AnyOf: []*schema{{Type: "string", Enum: k.strings()}, variables}}
}

// either lists words: "a, b or c".
func either(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func didYouMean(typed string, words []string) string {
	if near := spelling.Nearest(typed, words); near != "" {
		return " (did you mean " + near + "?)"
	}
	return ""
}

// truth is true or false.
type truth struct{ p *bool }

func (k truth) read(r *reader, n ast.Node, path string) {
	s, ok := r.scalar(n, path, k.says())
	if !ok {
		return
	}
	switch s.value {
	case "true", "false":
		*k.p = s.value == "true"
	default:
		advice := "write " + k.says()
		switch strings.ToLower(s.value) {
		case "yes", "on", "1":
			advice = "write true"
		case "no", "off", "0":
			advice = "write false"
		}
		r.fault(n, path, quoted(s.raw)+" is neither true nor false", advice)
	}
}

func (k truth) show() any    { return *k.p }
func (k truth) says() string { return "true or false" }
func (k truth) schema() *schema {
	return &schema{AnyOf: []*schema{{Type: "boolean"}, {Type: "string", Pattern: `^(true|false|.*\$\{.+\}.*)$`}}}
}

// count is a whole number, with k and M for thousands and millions.
type count[T ~int | ~int64] struct {
	p        *T
	min, max int64
	// none has a 0 in the file stored as -1: a 0 in the variable means that the
	// file says nothing.
	none bool
	// bytes takes KiB, MiB and GiB in place of k and M.
	bytes bool
}

const mostCalls = 1 << 40

func number[T ~int | ~int64](p *T, min, max int64) count[T] {
	return count[T]{p: p, min: min, max: max}
}

var units = map[string]int64{"": 1, "k": 1000, "M": 1000000, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
var negative = regexp.MustCompile(`^-[0-9.]+$`)
var countForm = regexp.MustCompile(`^(0|[1-9][0-9]*)(\.[0-9]+)?(k|M|KiB|MiB|GiB)?$`)

func (k count[T]) read(r *reader, n ast.Node, path string) {
	s, ok := r.scalar(n, path, k.says())
	if !ok {
		return
	}
	bad := func(problem string) { r.fault(n, path, quoted(s.raw)+" "+problem, "write "+k.says()) }
	if negative.MatchString(s.value) {
		bad("is negative")
		return
	}
	m := countForm.FindStringSubmatch(s.value)
	if m == nil || m[3] != "" && k.bytes != strings.HasSuffix(m[3], "B") || m[3] == "" && m[2] != "" {
		bad("is not a whole number")
		return
	}
	f, err := strconv.ParseFloat(m[1]+m[2], 64)
	if f *= float64(units[m[3]]); err != nil || f > float64(k.max) {
		bad("is too much")
		return
	}
	v := int64(math.Round(f))
	if math.Abs(f-float64(v)) > 1e-6 {
		bad("is not a whole number")
		return
	}
	if v < k.min {
		if v == 0 {
			r.fault(n, path, "is 0", "write "+k.says()+", or leave it out")
		} else {
			bad("is too little")
		}
		return
	}
	if v == 0 && k.none {
		v = -1
	}
	*k.p = T(v)
}

func (k count[T]) show() any {
	switch v := int64(*k.p); {
	case v == 0 && (k.min > 0 || k.none):
		return nil
	case k.none && v < 0:
		return 0
	default:
		return v
	}
}

func (k count[T]) says() string {
	what := "a whole number"
	if k.bytes {
		what = "a number of bytes such as 33554432 or 32MiB,"
	} else if k.max >= mostCalls {
		what = "a whole number such as 15 or 10k,"
	}
	if k.max >= mostCalls {
		return fmt.Sprintf("%s from %d on", what, k.min)
	}
	return fmt.Sprintf("%s from %d to %d", what, k.min, k.max)
}

func (k count[T]) schema() *schema {
	pattern := `^[0-9]+(\.[0-9]+)?[kM]$|^[0-9]+$|\$\{.+\}`
	if k.bytes {
		pattern = `^[0-9]+(\.[0-9]+)?[KMG]iB$|^[0-9]+$|\$\{.+\}`
	}
	least, most := float64(k.min), float64(k.max)
	return &schema{AnyOf: []*schema{{Type: "integer", Minimum: &least, Maximum: &most}, {Type: "string", Pattern: pattern}}}
}

// fraction is a number between two.
type fraction struct {
	p        *float64
	min, max float64
	over     bool   // min itself is too little
	under    bool   // max itself is too much
	zero     string // the word for 0
}

var fractionForm = regexp.MustCompile(`^[0-9]*\.?[0-9]+$`)

func (k fraction) read(r *reader, n ast.Node, path string) {
	s, ok := r.scalar(n, path, k.says())
	if !ok {
		return
	}
	if k.zero != "" && s.value == k.zero {
		*k.p = 0
		return
	}
	f, err := strconv.ParseFloat(s.value, 64)
	switch {
	case err != nil || !fractionForm.MatchString(s.value):
		r.fault(n, path, quoted(s.raw)+" is not a number", "write "+k.says())
	case f < k.min || f > k.max || k.over && f == k.min || k.under && f == k.max:
		r.fault(n, path, quoted(s.raw)+" is out of range", "write "+k.says())
	default:
		*k.p = f
	}
}

func (k fraction) show() any {
	if *k.p == 0 && k.zero != "" {
		return k.zero
	}
	if *k.p == 0 && k.over {
		return nil
	}
	return *k.p
}

func (k fraction) says() string {
	from, to := "from ", " to "
	if k.over {
		from = "above "
	}
	if k.under {
		to = " to below "
	}
	says := fmt.Sprintf("a number %s%v%s%v", from, k.min, to, k.max)
	if k.zero != "" {
		says += " or " + k.zero
	}
	return says
}

func (k fraction) schema() *schema {
	pattern := `^[0-9]*\.?[0-9]+$|\$\{.+\}`
	if k.zero != "" {
		pattern += "|^" + k.zero + "$"
	}
	n := &schema{Type: "number", Minimum: &k.min, Maximum: &k.max}
	if k.over {
		n.Minimum, n.ExclusiveMinimum = nil, &k.min
	}
	if k.under {
		n.Maximum, n.ExclusiveMaximum = nil, &k.max
	}
	return &schema{AnyOf: []*schema{n, {Type: "string", Pattern: pattern}}}
}

// span is a time: a whole number of its unit, or a duration.
type span struct {
	p        *time.Duration
	unit     time.Duration
	min, max time.Duration
	// none has a 0 in the file stored as -1: see count.
	none bool
}

const longest = 366 * 24 * time.Hour

func ms(p *time.Duration, min time.Duration) span {
	return span{p: p, unit: time.Millisecond, min: min, max: longest}
}

// msOrNone is for the fields of an entry, where 0 is the default.
func msOrNone(p *time.Duration) span {
	return span{p: p, unit: time.Millisecond, max: longest, none: true}
}

var wholeForm = regexp.MustCompile(`^(0|[1-9][0-9]*)$`)

func (k span) read(r *reader, n ast.Node, path string) {
	s, ok := r.scalar(n, path, k.says())
	if !ok {
		return
	}
	bad := func(problem string) { r.fault(n, path, quoted(s.raw)+" "+problem, "write "+k.says()) }
	var d time.Duration
	if wholeForm.MatchString(s.value) {
		v, err := strconv.ParseInt(s.value, 10, 64)
		if err != nil || v > int64(k.max/k.unit) {
			bad("is too long")
			return
		}
		d = time.Duration(v) * k.unit
	} else {
		var err error
		if d, err = time.ParseDuration(s.value); err != nil && negative.MatchString(s.value) {
			bad("is negative")
			return
		} else if err != nil {
			bad("is not a time")
			return
		}
	}
	switch {
	case d < 0:
		bad("is negative")
	case d > k.max:
		bad("is too long")
	case d < k.min:
		bad("is too short")
	case d%time.Millisecond != 0:
		bad("is no whole number of milliseconds")
	case d == 0 && k.none:
		*k.p = -1
	default:
		*k.p = d
	}
}

func (k span) show() any {
	switch d := *k.p; {
	case d == 0 && (k.none || k.min > 0):
		return nil
	case d < 0:
		return 0
	case d%k.unit != 0:
		return d.String()
	default:
		return int64(d / k.unit)
	}
}

func (k span) says() string {
	says := "whole milliseconds"
	if k.unit == time.Second {
		says = "whole seconds"
	}
	says += " or a duration such as 90s"
	if k.min > 0 {
		says += fmt.Sprintf(", at least %v", k.min)
	}
	if k.max < longest {
		says += fmt.Sprintf(", at most %v", k.max)
	}
	return says
}

func (k span) schema() *schema {
	least, most := float64(k.min/k.unit), float64(k.max/k.unit)
	return &schema{AnyOf: []*schema{
		{Type: "integer", Minimum: &least, Maximum: &most},
		{Type: "string", Pattern: `^([0-9.]+(ns|us|µs|ms|s|m|h))+$|^[0-9]+$|\$\{.+\}`},
	}}
}
