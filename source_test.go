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

// L-02: the gate alone asks a limiter. Nothing else of a request's path knows of
// grants; a limiter in front of another passes on what it is asked, and doctor
// asks for nothing.
func TestOneAskSite(t *testing.T) {
	may := []string{"gate/", "limiter/", "examples/", "internal/reach/", "internal/daemon/handover.go", "cmd/paceline/doctor.go"}
	for path, f := range sources(t) {
		for _, method := range []string{"Acquire", "AcquireBatch"} {
			if len(calls(f, method)) > 0 && !slices.ContainsFunc(may, func(p string) bool { return strings.HasPrefix(path, p) }) {
				t.Errorf("%s calls %s: who wants a grant stands in line at the gate", path, method)
			}
		}
	}
}

// P-03, P-04, P-05, P-06, P-07, P-08, P-09: nothing else reaches a provider. A
// Transport is composed by the daemon, which serves every command and every other process over HTTP, and by
// the demo, whose provider is a stand-in, as is that of the hosts in internal/fleet, which only tests have; no command has one, whatever its name.
// Requests are made to the daemon alone, to a limiter, and by the demo.: so nothing asks
// a provider for its budgets.
func TestNothingElseSends(t *testing.T) {
	may := map[string][]string{ // who may so much as name what sends
		"paceline.Transport":         {"internal/daemon/daemon.go", "internal/proxy/", "internal/demo/lane.go"},
		"http.Transport":             {"internal/fleet/fleet.go", "internal/daemon/upstream.go", "internal/home/client.go", "cmd/paceline/demo.go", "limiter/slothttp/client.go"},
		"http.Client":                {"internal/fleet/fleet.go", "internal/home/client.go", "internal/demo/lane.go", "limiter/slothttp/client.go"},
		"http.NewRequestWithContext": {"internal/fleet/fleet.go", "internal/home/client.go", "internal/home/server.go", "internal/demo/lane.go", "limiter/slothttp/client.go"},
		"http.DefaultTransport":      {"transport.go"},
		"http.NewRequest":            nil, "http.Get": nil, "http.Post": nil, "http.PostForm": nil, "http.Head": nil,
		"http.DefaultClient": nil,
	}
	for path, f := range sources(t) {
		ast.Inspect(f, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := s.X.(*ast.Ident); ok {
				name := x.Name + "." + s.Sel.Name
				if files, ok := may[name]; ok && !slices.ContainsFunc(files, func(p string) bool { return strings.HasPrefix(path, p) }) {
					t.Errorf("%s names %s: requests go through the daemon, and there through one Transport", path, name)
				}
			}
			return true
		})
	}
}

// TestArrows holds the imports to the layout: what may know of what. R-91: what
// reads providers knows of no store; R-92: the store, the decision and the waiting
// are elsewhere.
func TestArrows(t *testing.T) {
	const module = "github.com/paceline-proxy/paceline"
	const others = "..." // any package of another module
	may := map[string][]string{
		"limiter":                   {},
		"limiter/memory":            {"limiter", "limiter/internal/settling", "limiter/internal/spans"},
		"limiter/sqlite":            {"limiter", "limiter/internal/settling", "limiter/internal/spans", others},
		"limiter/redis":             {"limiter", others},
		"limiter/postgres":          {"limiter", others},
		"limiter/slothttp":          {"limiter"},
		"limiter/internal/settling": {"limiter"},
		"limiter/internal/spans":    {},
		"dialect":                   {},
		"budget":                    {"dialect"},
		"budget/file":               {"budget", "dialect", "github.com/gofrs/flock", "golang.org/x/sys/unix"},
		"policy":                    {"budget", "dialect", "limiter"},
		"gate":                      {"policy", "budget", "dialect", "limiter"},
		"stub":                      {},
		"":                          {"gate", "policy", "budget", "dialect", "limiter", "limiter/memory"},
		"internal/spelling":         {},
		"terminal": {"", "gate", "policy", "budget", "dialect", "limiter", "limiter/memory",
			"github.com/muesli/cancelreader", "golang.org/x/term", "golang.org/x/sys/unix"},
		// What libraries bring along is their own matter.
		"internal/home": {others},
		"internal/modules": {"internal/config", "internal/slot/address", "internal/spelling", "limiter/slothttp",
			"", "gate", "policy", "budget", "dialect", "limiter", "limiter/memory", others},
		"internal/history": {"", "gate", "policy", "budget", "dialect", "limiter", "limiter/memory", others},
		"internal/reach":   {"limiter", "limiter/memory"},
		// How an address is written is known without what it leads to.
		"internal/slot/address": {"internal/spelling"},
		"internal/config":       {"internal/spelling", "internal/slot/address", "", "gate", "policy", "budget", "dialect", "limiter", "limiter/memory", others},
		"internal/proxy": {"internal/config", "internal/spelling", "internal/slot/address",
			"", "gate", "policy", "budget", "dialect", "limiter", "limiter/memory", others},
		"internal/slot": {"internal/home", "internal/spelling", "internal/slot/address", "internal/modules", "internal/config",
			"", "gate", "policy", "budget", "dialect", "limiter", "limiter/memory", "limiter/postgres", "limiter/redis", "limiter/slothttp", "limiter/sqlite", others},
		"internal/daemon": {"internal/proxy", "internal/history", "internal/home", "internal/config", "internal/spelling",
			"internal/reach", "internal/slot", "internal/slot/address", "internal/modules", "limiter/postgres", "limiter/redis", "limiter/slothttp", "limiter/sqlite",
			"", "gate", "policy", "budget", "budget/file", "dialect", "limiter", "limiter/memory", others},
	}
	for pkg, allowed := range may {
		if slices.Contains(allowed, "limiter/memory") {
			allowed = slices.Concat(allowed, may["limiter/memory"]) // what it is made of
		}
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
