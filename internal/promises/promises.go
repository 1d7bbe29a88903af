// Package promises keeps docs/contract.md, the table of what each limiter of this
// module promises, true: a backend's test says by what name it stands there, and
// fails where the table says otherwise.
package promises

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/paceline-proxy/paceline/limiter/limitertest"
)

// Together is the case that [limitertest.Race] is in the table.
var Together = limitertest.Case{
	Name: "several processes at once",
	IDs:  []string{"CC-25"},
}

// The words of the table.
const (
	kept        = "yes"
	notPromised = "–"
	broken      = "no"
)

// Of returns what is told the outcomes of a limiter's cases, as the harness of
// its test wants it. When the test ends they are compared with the table, or
// left in the folder that PACELINE_CONTRACT names, for the next one.
func Of(t *testing.T, name string) func(limitertest.Case, error) {
	t.Helper()
	var mu sync.Mutex
	found := map[string]string{}
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		if dir := os.Getenv("PACELINE_CONTRACT"); dir != "" {
			leave(t, dir, name, found)
			return
		}
		compare(t, name, found)
	})
	return func(c limitertest.Case, err error) {
		mu.Lock()
		defer mu.Unlock()
		switch err {
		case nil:
			found[c.Name] = kept
		case limitertest.ErrNotPromised:
			found[c.Name] = notPromised
		default:
			found[c.Name] = broken
		}
	}
}

// An account is what one test has found of one limiter.
type account struct {
	Limiter  string
	Outcomes map[string]string // by case
}

func leave(t *testing.T, dir, name string, found map[string]string) {
	text, err := json.Marshal(account{name, found})
	if err != nil {
		t.Fatal(err)
	}
	file := strings.NewReplacer("/", "-", " ", "-").Replace(name + " " + t.Name() + ".json")
	if err := os.WriteFile(filepath.Join(dir, file), text, 0o644); err != nil {
		t.Error(err)
	}
}

func compare(t *testing.T, name string, found map[string]string) {
	text, err := os.ReadFile(filepath.Join(root(t), "docs", "contract.md"))
	if err != nil {
		t.Error(err)
		return
	}
	table := parse(string(text))
	for _, c := range slices.Sorted(maps.Keys(found)) {
		if said := table[c][name]; said != found[c] && found[c] != broken {
			t.Errorf("docs/contract.md says %q of %s in %q, and it is %q: make contract", said, name, c, found[c])
		}
	}
}

// root is the module's folder.
func root(t *testing.T) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above this test")
		}
	}
}

// parse reads a table as it is written: what it says, by case and limiter.
func parse(text string) map[string]map[string]string {
	table := map[string]map[string]string{}
	var names []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			names = nil
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case names == nil:
			names = cells
		case strings.HasPrefix(cells[0], "---"):
		default:
			row := map[string]string{}
			for i, cell := range cells[1:] {
				row[names[i+1]] = cell
			}
			table[cells[0]] = row
		}
	}
	return table
}
