package paceline_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sources parses every file of the module that is not a test.
func sources(t *testing.T) map[string]*ast.File {
	t.Helper()
	files := make(map[string]*ast.File)
	set := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != "." || strings.HasPrefix(d.Name(), ".") && path != "." {
				return filepath.SkipDir // another module
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files[filepath.ToSlash(path)], err = parser.ParseFile(set, path, nil, 0)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("only %d files found", len(files))
	}
	return files
}

// calls lists the functions that call a method or function of a name.
func calls(f *ast.File, name string) (callers []string) {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		ast.Inspect(fn, func(n ast.Node) bool {
			if c, ok := n.(*ast.CallExpr); ok {
				if s, ok := c.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == name {
					callers = append(callers, fn.Name.Name)
				}
			}
			return true
		})
	}
	return callers
}

// P-01, P-02, P-13: one function sends, one function calls it, and that
// one is called by the path alone, behind the gate. The proxy hands requests to
// a Transport, where the path begins.
func TestOneSendSite(t *testing.T) {
	for _, step := range []struct {
		called string
		by     []string
	}{
		{"RoundTrip", []string{"attempt.go:exchange", "internal/proxy/forward.go:forward"}},
		{"exchange", []string{"attempt.go:send"}},
		{"send", []string{"transport.go:RoundTrip"}},
	} {
		var callers []string
		for path, f := range sources(t) {
			for _, c := range calls(f, step.called) {
				callers = append(callers, path+":"+c)
			}
		}
		slices.Sort(callers)
		if !slices.Equal(callers, step.by) {
			t.Errorf("%s is called by %v, want by %v alone", step.called, callers, step.by)
		}
	}
}

// P-03: nothing else reaches a provider: no other code makes requests
// but through a client that is given a Transport.
func TestNothingElseSends(t *testing.T) {
	for path, f := range sources(t) {
		ast.Inspect(f, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := s.X.(*ast.Ident); !ok || x.Name != "http" {
				return true
			}
			switch s.Sel.Name {
			case "Get", "Post", "PostForm", "Head", "DefaultClient":
				t.Errorf("%s uses http.%s: requests go through a Transport", path, s.Sel.Name)
			case "DefaultTransport":
				if path != "transport.go" {
					t.Errorf("%s uses http.DefaultTransport", path)
				}
			}
			return true
		})
	}
}

// TestArrows holds the imports to the layout: what may know of what.
func TestArrows(t *testing.T) {
	const module = "github.com/paceline-proxy/paceline"
	const others = "..." // any package of another module
	may := map[string][]string{
		"limiter":           {},
		"limiter/memory":    {"limiter"},
		"dialect":           {},
		"budget":            {"dialect"},
		"budget/file":       {"budget", "dialect", "github.com/gofrs/flock", "golang.org/x/sys/unix"},
		"policy":            {"budget", "dialect", "limiter"},
		"gate":              {"policy", "budget", "dialect", "limiter"},
		"stub":              {},
		"":                  {"gate", "policy", "budget", "dialect", "limiter", "limiter/memory"},
		"internal/spelling": {},
		// SQLite's driver brings others along, which are its own matter.
		"internal/history": {"", "gate", "policy", "budget", "dialect", "limiter", "limiter/memory", others},
	}
	for pkg, allowed := range may {
		path := strings.TrimSuffix(module+"/"+pkg, "/")
		out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", path).Output()
		if err != nil {
			t.Fatalf("go list %s: %v", path, err)
		}
		for dep := range strings.FieldsSeq(string(out)) {
			if dep == path {
				continue
			}
			rel, ours := strings.CutPrefix(dep+"/", module+"/")
			rel = strings.TrimSuffix(rel, "/")
			switch {
			case !ours && !slices.Contains(allowed, dep) && !slices.Contains(allowed, others):
				t.Errorf("%s needs %s, against the layout", path, dep)
			case ours && !slices.Contains(allowed, rel):
				t.Errorf("%s needs %s, against the layout", path, rel)
			}
		}
	}
}
