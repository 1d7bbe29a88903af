package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// What a configuration file is at most. Parsing takes time that grows faster
// than what is parsed, and aliases can make much of little.
const (
	mostBytes  = 256 << 10
	mostTokens = 30000
	mostValues = 100000
	mostFaults = 100
)

// A reader takes values from a syntax tree and gathers what is wrong.
type reader struct {
	file   string
	lookup func(name string) (string, bool) // environment variables

	faults, warnings Faults
	anchors          map[string]ast.Node
	values           int
	at               map[string]*token.Position // of keys, by path
	// plain is where secrets are written in the file itself.
	plain []string
}

func newReader(file string, lookup func(string) (string, bool)) *reader {
	return &reader{file: file, lookup: lookup, anchors: map[string]ast.Node{}, at: map[string]*token.Position{}}
}

// fault says what is wrong with the value n.
func (r *reader) fault(n ast.Node, path, problem, advice string) {
	r.add(&r.faults, n.GetToken().Position, path, problem, advice)
}

// faultAt says what is wrong with the value of a key, and warn what is odd.
func (r *reader) faultAt(path, problem, advice string) {
	r.add(&r.faults, r.position(path), path, problem, advice)
}

func (r *reader) warn(path, problem, advice string) {
	r.add(&r.warnings, r.position(path), path, problem, advice)
}

func (r *reader) add(to *Faults, at *token.Position, path, problem, advice string) {
	f := Fault{File: r.file, Path: path, Problem: problem, Advice: advice}
	if at != nil {
		f.Line, f.Column = at.Line, at.Column
	}
	if len(*to) < mostFaults && !slices.Contains(*to, f) {
		*to = append(*to, f)
	}
}

// position is that of a key, or of the nearest one it is in.
func (r *reader) position(path string) *token.Position {
	for {
		if at, ok := r.at[path]; ok || path == "" {
			return at
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
}

// sort brings faults into the order of the file.
func (fs Faults) sort() {
	slices.SortStableFunc(fs, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// resolve follows anchors, aliases and tags that say nothing new. It returns
// nil after a fault.
func (r *reader) resolve(n ast.Node, path string) ast.Node {
	if r.values++; r.values > mostValues {
		if r.values == mostValues+1 {
			r.fault(n, path, "the aliases make more of the file than any configuration has", "write less")
		}
		return nil
	}
	for range 10 {
		switch v := n.(type) {
		case *ast.AnchorNode:
			n = v.Value
		case *ast.AliasNode:
			name := v.Value.GetToken().Value
			if n = r.anchors[name]; n == nil {
				r.fault(v, path, fmt.Sprintf("there is no anchor %s", quoted(name)), "put & and its name before the value that is meant")
				return nil
			}
		case *ast.TagNode:
			switch v.Start.Value {
			case "!!str", "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq":
				n = v.Value
			default:
				r.fault(v, path, "tags such as "+quoted(v.Start.Value)+" mean nothing here", "leave it out")
				return nil
			}
		case nil:
			return nil
		default:
			return n
		}
	}
	r.fault(n, path, "the alias leads back to itself", "write the value")
	return nil
}

// A pair is a key with its value.
type pair struct {
	key   ast.Node
	name  string
	value ast.Node
}

// pairs are those of a mapping, with those of a merge key (<<) that it does
// not have itself. None are those of a mapping without content.
func (r *reader) pairs(n ast.Node, path, want string) []pair {
	n = r.resolve(n, path)
	if n == nil {
		return nil
	}
	var values []*ast.MappingValueNode
	switch v := n.(type) {
	case *ast.MappingNode:
		values = v.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{v}
	case *ast.NullNode:
		return nil
	default:
		r.fault(n, path, "is "+shape(n)+", not a mapping", "write "+want)
		return nil
	}
	var ps, merged []pair
	for _, v := range values {
		if _, ok := v.Key.(*ast.MergeKeyNode); ok {
			for _, from := range r.merged(v.Value, path) {
				merged = append(merged, r.pairs(from, path, want)...)
			}
			continue
		}
		key, ok := v.Key.(ast.Node)
		if !ok {
			continue
		}
		if key = r.resolve(key, path); key == nil {
			continue
		}
		s, ok := written(key)
		if !ok {
			r.fault(key, path, "a key is "+shape(key), "write a word")
			continue
		}
		ps = append(ps, pair{key, s, v.Value})
	}
	for _, m := range merged {
		if !slices.ContainsFunc(ps, func(p pair) bool { return p.name == m.name }) {
			ps = append(ps, m)
		}
	}
	return ps
}

// merged are the mappings that a merge key names: one, or a list.
func (r *reader) merged(n ast.Node, path string) []ast.Node {
	if k, ok := n.(*ast.MergeKeyNode); ok && k != nil {
		return nil
	}
	n = r.resolve(n, path)
	if n == nil {
		return nil
	}
	if s, ok := n.(*ast.SequenceNode); ok {
		return s.Values
	}
	return []ast.Node{n}
}

// A scalar is one value as text: as it is written in the file, which faults
// may show, and as it is meant, with variables put in.
type scalar struct{ raw, value string }

// scalar reads one value. Where it is none, or a variable is missing, it says
// so.
func (r *reader) scalar(n ast.Node, path, want string) (s scalar, ok bool) {
	if n = r.resolve(n, path); n == nil {
		return s, false
	}
	raw, ok := written(n)
	if !ok {
		if _, null := n.(*ast.NullNode); null {
			r.fault(n, path, "has no value", "write "+want+", or leave the line out")
		} else {
			r.fault(n, path, "is "+shape(n), "write "+want)
		}
		return s, false
	}
	value, problems := expand(raw, r.lookup)
	for _, p := range problems {
		r.fault(n, path, p.problem, p.advice)
	}
	return scalar{raw, value}, len(problems) == 0
}

// written is a scalar as the file has it.
func written(n ast.Node) (string, bool) {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value, true
	case *ast.LiteralNode:
		return v.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NanNode, *ast.InfinityNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// shape is what a value is, where another was expected.
func shape(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "empty"
	}
	return "a single value"
}

type problem struct{ problem, advice string }

var variable = regexp.MustCompile(`\$\$|\$\{[^}]*\}?`)
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand puts environment variables in for ${NAME}, and one $ for $$.
func expand(s string, lookup func(string) (string, bool)) (string, []problem) {
	var problems []problem
	s = variable.ReplaceAllStringFunc(s, func(m string) string {
		if m == "$$" {
			return "$"
		}
		name, closed := strings.CutSuffix(m[2:], "}")
		if !closed || !variableName.MatchString(name) {
			problems = append(problems, problem{quoted(m) + " names no variable", "write ${NAME}, and $$ for a $"})
			return ""
		}
		value, ok := lookup(name)
		if !ok {
			problems = append(problems, problem{"the environment has no " + name, "set it where paceline is started"})
		}
		return value
	})
	return s, problems
}

// What should not be repeated on a screen or in a log, wherever in the file
// it was written.
var keyLike = regexp.MustCompile(`(?i)(\b(sk|pk|rk)-|gsk_|pcl_|AIza|xai-|pplx-|nvapi-|hf_|csk-|fw_|tgp_|github_pat_|ghp_|bearer )[^\s"']*|//[^/@\s]*@|\?\S+`)

// quoted shows what somebody wrote, shortened, and without what looks secret.
func quoted(s string) string {
	s = keyLike.ReplaceAllStringFunc(s, func(m string) string {
		switch m[0] {
		case '/':
			return "//…@"
		case '?':
			return "?…"
		}
		return "…"
	})
	if runes := []rune(s); len(runes) > 60 {
		s = string(runes[:60]) + "…"
	}
	return fmt.Sprintf("%q", s)
}

// join is the path of a key inside another.
func join(path, key string) string {
	if !simple.MatchString(key) {
		key = quoted(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

var simple = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
