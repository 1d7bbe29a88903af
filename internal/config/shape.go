package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/paceline-proxy/paceline/internal/spelling"
)

// A field is one key of a mapping.
type field struct {
	name string
	// alias is another name for it; a file uses one of the two.
	alias string
	kind  kind
	// def is the default, for people, where the kind does not know it.
	def string
	doc string
	// later says of what is not supported yet what to do meanwhile.
	later string
}

// object is a mapping with known keys.
type object struct {
	fields []field
	// off, where it is not nil, is what a plain false sets.
	off *bool
}

func (k object) names() []string {
	names := make([]string, 0, len(k.fields))
	for _, f := range k.fields {
		names = append(names, f.name)
	}
	return names
}

func (k object) find(name string) *field {
	for i, f := range k.fields {
		if name == f.name || name == f.alias && name != "" {
			return &k.fields[i]
		}
	}
	return nil
}

func (k object) read(r *reader, n ast.Node, path string) {
	if k.off != nil {
		if b, ok := n.(*ast.BoolNode); ok {
			*k.off = !b.Value
			return
		}
	}
	seen := make(map[string]pair)
	for _, p := range r.pairs(n, path, k.says()) {
		at := join(path, p.name)
		f := k.find(p.name)
		if f == nil {
			k.unknown(r, p, at, path)
			continue
		}
		if first, twice := seen[f.name]; twice {
			problem := fmt.Sprintf("is given twice, first in line %d", first.key.GetToken().Position.Line)
			if first.name != p.name {
				problem = fmt.Sprintf("is another name of %s in line %d", first.name, first.key.GetToken().Position.Line)
			}
			r.fault(p.key, at, problem, "keep one of the two")
			continue
		}
		seen[f.name] = p
		r.at[join(path, f.name)] = p.key.GetToken().Position
		before, faults := fmt.Sprint(f.kind.show()), len(r.faults)
		f.kind.read(r, p.value, at)
		if f.later != "" && len(r.faults) == faults && fmt.Sprint(f.kind.show()) != before {
			r.fault(p.key, at, "is not supported yet", f.later)
		}
	}
}

// unknown says that there is no such key, and where there is one.
func (k object) unknown(r *reader, p pair, at, path string) {
	names := k.names()
	for _, f := range k.fields {
		if f.alias != "" {
			names = append(names, f.alias)
		}
	}
	problem, advice := "there is no such key", "the keys here are "+strings.Join(names, ", ")
	if near := spelling.Nearest(p.name, names); near != "" {
		problem, advice = problem+" (did you mean "+near+"?)", "write "+near
	} else {
		for _, f := range k.fields {
			if o, ok := f.kind.(object); ok && o.find(p.name) != nil {
				advice = "it belongs under " + join(path, f.name)
			}
		}
	}
	r.fault(p.key, at, problem, advice)
}

func (k object) show() any {
	if k.off != nil && *k.off {
		return false
	}
	var out yaml.MapSlice
	for _, f := range k.fields {
		if v := f.kind.show(); v != nil {
			out = append(out, yaml.MapItem{Key: f.name, Value: v})
		}
	}
	if out == nil {
		return nil
	}
	return out
}

func (k object) says() string {
	says := "a mapping with " + strings.Join(k.names(), ", ")
	if k.off != nil {
		says = "false, or " + says
	}
	return says
}

// list is any number of values.
type list[T any] struct {
	p    *[]T
	what string
	of   func(*T) kind
	// single takes one value without its list.
	single bool
}

func (k list[T]) read(r *reader, n ast.Node, path string) {
	v := r.resolve(n, path)
	if v == nil {
		return
	}
	var values []ast.Node
	switch v := v.(type) {
	case *ast.SequenceNode:
		values = v.Values
	case *ast.NullNode:
	default:
		if !k.single {
			r.fault(v, path, "is "+shape(v)+", not a list", "write [ ] around it, or each on a line that begins with -")
			return
		}
		values = []ast.Node{v}
	}
	out := make([]T, len(values))
	for i, v := range values {
		at := fmt.Sprintf("%s[%d]", path, i)
		if k.single && len(values) == 1 {
			at = path
		}
		if v == nil {
			continue
		}
		r.at[at] = v.GetToken().Position
		k.of(&out[i]).read(r, v, at)
	}
	*k.p = out
}

func (k list[T]) show() any {
	if len(*k.p) == 0 {
		return nil
	}
	var out []any
	for i := range *k.p {
		out = append(out, k.of(&(*k.p)[i]).show())
	}
	if k.single && len(out) == 1 {
		return out[0]
	}
	return out
}

func (k list[T]) says() string { return "a list of " + k.what }

// named is a mapping whose keys are names.
type named[T any] struct {
	key   string // what a key is
	names func(name string) (problem, advice string)
	of    func(*T) kind
	// each are the values there are, in their order; put adds one.
	each func(yield func(string, *T) bool)
	put  func(name string, v T)
}

// byName keeps values in a map.
func byName[T any](p *map[string]T, key string, names func(string) (string, string), of func(*T) kind) named[T] {
	return named[T]{key, names, of,
		func(yield func(string, *T) bool) {
			for _, name := range sorted(*p) {
				v := (*p)[name]
				if !yield(name, &v) {
					return
				}
			}
		},
		func(name string, v T) {
			if *p == nil {
				*p = make(map[string]T)
			}
			(*p)[name] = v
		}}
}

func (k named[T]) read(r *reader, n ast.Node, path string) {
	seen := make(map[string]*token.Position)
	for _, p := range r.pairs(n, path, k.says()) {
		at, here := join(path, p.name), p.key.GetToken().Position
		if first, twice := seen[p.name]; twice {
			r.fault(p.key, at, fmt.Sprintf("is given twice, first in line %d", first.Line), "keep one of the two")
			continue
		}
		seen[p.name] = here
		r.at[at] = here
		if problem, advice := k.names(p.name); problem != "" {
			r.fault(p.key, at, problem, advice)
		}
		var v T
		k.of(&v).read(r, p.value, at)
		k.put(p.name, v)
	}
}

func (k named[T]) show() any {
	var out yaml.MapSlice
	for name, v := range k.each {
		shown := k.of(v).show()
		if shown == nil {
			shown = yaml.MapSlice{}
		}
		out = append(out, yaml.MapItem{Key: name, Value: shown})
	}
	if out == nil {
		return nil
	}
	return out
}

func (k named[T]) says() string { return "a mapping from " + k.key }

func sorted[T any](m map[string]T) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
