package paceline_test

import (
	"go/ast"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/paceline-proxy/paceline/dialect"
)

// A provider is one file, and one line in the list: nothing else in the
// module knows it by its variable or by its name.
func TestProviderIsOneFile(t *testing.T) {
	// The words that are names of APIs, too, and of a command.
	may := map[string][]string{
		"codex":     {"cmd/paceline/tools.go"},
		"openai":    {"builtin.go", "internal/config/", "internal/demo/"},
		"anthropic": {"internal/config/"},
	}
	files := sources(t)
	variables := make(map[string]string) // of each dialect
	list := map[string]bool{"dialect/list.go": true}
	for _, d := range dialect.All {
		own := "dialect/" + d.Name + ".go"
		list[own] = true // one provider may speak as another does
		f := files[own]
		if f == nil {
			t.Errorf("%s has no file %s", d.Name, own)
			continue
		}
		for _, decl := range f.Decls {
			g, ok := decl.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, s := range g.Specs {
				v := s.(*ast.ValueSpec)
				if len(v.Values) != 1 {
					continue
				}
				if u, ok := v.Values[0].(*ast.UnaryExpr); ok && strings.HasPrefix(v.Names[0].Name, strings.ToUpper(v.Names[0].Name[:1])) {
					if lit, ok := u.X.(*ast.CompositeLit); ok {
						if name, ok := lit.Type.(*ast.Ident); ok && name.Name == "Dialect" {
							variables[d.Name] = v.Names[0].Name
						}
					}
				}
			}
		}
		if variables[d.Name] == "" {
			t.Errorf("%s declares no dialect", own)
		}
	}
	for path, f := range files {
		for _, d := range dialect.All {
			// A stand-in for providers plays each of them.
			if strings.HasPrefix(path, "stub/") || d == dialect.Generic || path == "dialect/"+d.Name+".go" {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Ident:
					if filepath.Dir(path) == "dialect" && n.Name == variables[d.Name] && !list[path] {
						t.Errorf("%s names %s: what is special about a provider stands in its own file", path, n.Name)
					}
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && x.Name == "dialect" && n.Sel.Name == variables[d.Name] {
						t.Errorf("%s names dialect.%s: what is special about a provider is a field of its dialect", path, n.Sel.Name)
					}
				case *ast.BasicLit:
					s, _ := strconv.Unquote(n.Value)
					named := n.Kind == token.STRING && (s == d.Name || slices.Contains(d.Names, s))
					if named && !slices.ContainsFunc(may[s], func(p string) bool { return strings.HasPrefix(path, p) }) {
						t.Errorf("%s says %s: what is special about a provider is a field of its dialect", path, n.Value)
					}
				}
				return true
			})
		}
	}
}

// A provider is added to a copy of the module as CONTRIBUTING.md says, with one
// file, one case and one line; then it is read, documented and built in. Its case
// is what holds it: without the file's rule, the test fails.
func TestAddAProvider(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles a copy of the dialects")
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "dialect"), os.DirFS("dialect")); err != nil {
		t.Fatal(err)
	}
	write := func(name, content string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	guide := read("CONTRIBUTING.md")
	file, ok := between(guide, "```go\n// dialect/acme.go\n", "```\n")
	if !ok {
		t.Fatal("CONTRIBUTING.md has no dialect/acme.go")
	}
	golden, ok := between(guide, "```json\n", "```\n")
	if !ok {
		t.Fatal("CONTRIBUTING.md has no case")
	}
	write("go.mod", "module github.com/paceline-proxy/paceline\n\ngo 1.26\n")
	write("dialect/acme.go", file)
	write("dialect/testdata/cases/acme/001-acme-minute.json", golden)
	write("dialect/list.go", strings.Replace(read("dialect/list.go"), "\tGeneric,\n", "\tAcme,\n\tGeneric,\n", 1))
	write("dialect/acme_added_test.go", `package dialect

import "testing"

func TestAdded(t *testing.T) {
	d, ok := ByName("acme")
	if !ok || d != Acme || ByHost("api.acme.test:443") != Acme || d.BaseURL == "" || KeyOf("acme_1") != Acme || d.GroupOf("m") != "m" {
		t.Error("it is not to be had")
	}
}
`)
	run := func() (string, error) {
		// Vendor's tests import a limiter, which is not in the copy.
		c := exec.Command("go", "test", "-vet=off", "-run", "^(TestCases|TestEveryDialectHasCases|TestAdded)$", "./dialect")
		c.Dir = dir
		c.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "GOPROXY=off")
		out, err := c.CombinedOutput()
		return string(out), err
	}
	if err := os.Remove(filepath.Join(dir, "dialect/vendor_test.go")); err != nil {
		t.Fatal(err)
	}
	if out, err := run(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	spoilt := strings.Replace(file, "requests: Minute", "requests: Day", 1)
	if spoilt == file {
		t.Fatal("the file has no rule that its case is for")
	}
	write("dialect/acme.go", spoilt)
	if out, err := run(); err == nil || !strings.Contains(out, "acme reads it wrong") {
		t.Errorf("its case holds without its rule: %v\n%s", err, out)
	}
}

// between is what stands between two texts.
func between(s, after, before string) (string, bool) {
	_, rest, found := strings.Cut(s, after)
	inner, _, ended := strings.Cut(rest, before)
	return inner, found && ended
}
