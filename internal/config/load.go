package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// An Unreadable error says that there is no file to find faults in.
type Unreadable struct{ Fault }

// Load reads a configuration, and the secrets that it refers to. Everything
// that is wrong with it is one error, [Faults]; of a file that cannot be read it
// is [Unreadable]. An empty path is [Default].
func Load(path string) (*Config, error) {
	if path == "" {
		return Default(), nil
	}
	b, info, err := readFile(path, mostBytes)
	if err != nil {
		return nil, Unreadable{Fault{File: path, Problem: err.Error(), Advice: "name a configuration file, or none for the defaults"}}
	}
	return load(path, b, os.LookupEnv, othersRead(info))
}

// load reads the content of a file. open is whether other users can, too.
func load(path string, b []byte, lookup func(string) (string, bool), open bool) (*Config, error) {
	c := Default()
	c.File = path
	r := newReader(path, lookup)
	root := r.parse(b)
	if root != nil {
		table(c).read(r, root, "")
		c.finish(r)
	} else if len(r.faults) == 0 {
		r.warn("", "is empty", "the defaults hold")
	}
	if open {
		for _, path := range r.plain {
			r.warn(path, "is written here, and other users can read this file", "chmod 600 it, or write file: and the path of a file that holds the secret")
		}
	}
	r.faults.sort()
	r.warnings.sort()
	c.Warnings = r.warnings
	if len(r.faults) > 0 {
		if len(r.faults) == mostFaults {
			r.faults = append(r.faults, Fault{File: path, Problem: "there may be more", Advice: "mend these first"})
		}
		return nil, r.faults
	}
	return c, nil
}

// parse returns the one document of a file; nil where there is none, or after
// a fault.
func (r *reader) parse(b []byte) ast.Node {
	whole := func(problem, advice string) ast.Node {
		r.add(&r.faults, nil, "", problem, advice)
		return nil
	}
	if bytes.HasPrefix(b, []byte{0xff, 0xfe}) || bytes.HasPrefix(b, []byte{0xfe, 0xff}) {
		return whole("is UTF-16", "save it as UTF-8")
	}
	text := strings.ReplaceAll(strings.TrimPrefix(string(b), "\ufeff"), "\r\n", "\n")
	line := 1
	for i, c := range text {
		switch {
		case c == '\n':
			line++
		case c == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)):
			r.add(&r.faults, &token.Position{Line: line, Column: 1}, "", "is not UTF-8", "save the file as UTF-8")
			return nil
		case c < ' ' && c != '\t', c == 0x7f:
			r.add(&r.faults, &token.Position{Line: line, Column: 1}, "", fmt.Sprintf("has a control character, %U", c), "take it out")
			return nil
		}
	}
	tokens := lexer.Tokenize(text)
	if len(tokens) > mostTokens {
		return whole(fmt.Sprintf("has more than %d words and signs", mostTokens), "is it a configuration?")
	}
	file, err := parse(tokens)
	if err != nil {
		r.syntax(err, text)
		return nil
	}
	var root ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if root != nil {
			r.fault(doc.Body, "", "is a second document", "keep one, and no line that is --- before it")
			return nil
		}
		root = doc.Body
	}
	if root != nil {
		ast.Walk(r, root)
	}
	return root
}

// parse survives what the parser does not: a proxy that reads its
// configuration again has requests to lose.
func parse(tokens token.Tokens) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the parser failed: %v", p)
		}
	}()
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// Visit keeps the anchors of a tree.
func (r *reader) Visit(n ast.Node) ast.Visitor {
	if a, ok := n.(*ast.AnchorNode); ok {
		r.anchors[a.Name.GetToken().Value] = a.Value
	}
	return r
}

// syntax says what the parser could not read. Its own text may show the line,
// with what is secret in it; its message does not.
func (r *reader) syntax(err error, text string) {
	var e yaml.Error
	if !errors.As(err, &e) || e.GetToken() == nil {
		r.add(&r.faults, nil, "", "is no YAML", "check its brackets, quotes and indentation")
		return
	}
	at := e.GetToken().Position
	lines := strings.Split(text, "\n")
	line := lines[min(max(at.Line, 1), len(lines))-1]
	advice := "indent what belongs together alike, and put a text that holds ': ' or ' #' in quotes"
	switch {
	case strings.Contains(e.GetMessage(), "\t"):
		advice = "indent with spaces, not with tabs"
	case strings.Contains(line, "${") && strings.ContainsAny(line, "{["):
		advice = `write "${NAME}" with quotes inside { } and [ ]`
	case strings.Contains(e.GetMessage(), "reserved character"):
		advice = "put the text in quotes"
	case strings.Contains(e.GetMessage(), "quoted text"):
		advice = "close the quotes"
	case strings.Contains(e.GetMessage(), "']'") || strings.Contains(e.GetMessage(), "'}'"):
		advice = "close each bracket, and put , between values"
	}
	r.add(&r.faults, at, "", "cannot be read: "+strings.ReplaceAll(e.GetMessage(), "'\t'", "TAB"), advice)
}
