package promises

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-proxy/paceline/limiter/limitertest"
)

var update = flag.Bool("update", false, "write docs/contract.md from what the tests have left in PACELINE_CONTRACT")

// rows are the cases of the table.
var rows = append(slices.Clone(limitertest.Cases), Together)

// limiters are the columns: every folder of a backend, alone and behind the wire.
func limiters(t *testing.T) []string {
	names := []string{"memory", "memory with journal"}
	folders, err := os.ReadDir(filepath.Join(root(t), "limiter"))
	if err != nil {
		t.Fatal(err)
	}
	var wire []string
	for _, f := range folders {
		switch name := f.Name(); {
		case !f.IsDir(), name == "limitertest", name == "internal", name == "slothttp":
		case name == "memory":
			wire = append(wire, "wire over memory")
		default:
			names, wire = append(names, name), append(wire, "wire over "+name)
		}
	}
	return append(names, wire...)
}

// L-112, L-119, L-120: one list of cases holds every limiter, and the table says
// so of each.
func TestTable(t *testing.T) {
	path := filepath.Join(root(t), "docs", "contract.md")
	if *update {
		if err := os.WriteFile(path, []byte(document(limiters(t), accounts(t))), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	table := parse(string(text))
	for _, c := range rows {
		row, ok := table[c.Name]
		if !ok {
			t.Errorf("docs/contract.md has no row %q: make contract", c.Name)
			continue
		}
		if want := strings.Join(c.IDs, " "); row[proves] != want {
			t.Errorf("docs/contract.md says that %q proves %q, want %q: make contract", c.Name, row[proves], want)
		}
		for _, name := range limiters(t) {
			if said := row[name]; said != kept && said != notPromised {
				t.Errorf("docs/contract.md says %q of %s in %q: make contract", said, name, c.Name)
			}
		}
		delete(table, c.Name)
	}
	for name := range table {
		t.Errorf("docs/contract.md has a row %q that is no case: make contract", name)
	}
}

// accounts are what the tests have left, by limiter and case.
func accounts(t *testing.T) map[string]map[string]string {
	dir := os.Getenv("PACELINE_CONTRACT")
	paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("PACELINE_CONTRACT %q holds nothing (%v): make contract", dir, err)
	}
	found := map[string]map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var a account
		if err := json.Unmarshal(text, &a); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if found[a.Limiter] == nil {
			found[a.Limiter] = map[string]string{}
		}
		for c, outcome := range a.Outcomes {
			if was, ok := found[a.Limiter][c]; ok && was != outcome {
				t.Fatalf("%s: %q and %q in %q", a.Limiter, was, outcome, c)
			}
			found[a.Limiter][c] = outcome
		}
	}
	return found
}

const proves = "proves"

func document(names []string, found map[string]map[string]string) string {
	var b strings.Builder
	b.WriteString(`# What each limiter promises

Every limiter of this module is held to one list of cases, [limitertest](../limiter/limitertest),
that anybody can run over a limiter of their own. The wire is
[slothttp](../limiter/slothttp): a client, and a server over each of them. "` + notPromised + `" is what a
limiter does not promise: what it keeps in its process, others cannot share. The
statements are those of [SPEC.md](SPEC.md).

Made by running the cases: ` + "`make contract`" + `.

`)
	fmt.Fprintf(&b, "| case | %s | %s |\n|---|---|%s\n", proves, strings.Join(names, " | "), strings.Repeat("---|", len(names)))
	for _, c := range rows {
		fmt.Fprintf(&b, "| %s | %s |", c.Name, strings.Join(c.IDs, " "))
		for _, name := range names {
			outcome, ok := found[name][c.Name]
			if !ok {
				outcome = notPromised
				if len(found[name]) == 0 || c.Name != Together.Name {
					outcome = "not run"
				}
			}
			fmt.Fprintf(&b, " %s |", outcome)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// What is written is what is read, and what is missing is seen.
func TestDocument(t *testing.T) {
	text := document([]string{"one", "two"}, map[string]map[string]string{
		"one": {rows[0].Name: kept, rows[1].Name: notPromised, Together.Name: kept},
		"two": {rows[0].Name: broken},
	})
	table := parse(text)
	for _, c := range []struct{ row, column, want string }{
		{rows[0].Name, proves, strings.Join(rows[0].IDs, " ")},
		{rows[0].Name, "one", kept},
		{rows[1].Name, "one", notPromised},
		{rows[2].Name, "one", "not run"},
		{Together.Name, "one", kept},
		{rows[0].Name, "two", broken},
		{Together.Name, "two", notPromised},
	} {
		if got := table[c.row][c.column]; got != c.want {
			t.Errorf("%q of %s is %q, want %q", c.row, c.column, got, c.want)
		}
	}
	if len(table) != len(rows) {
		t.Errorf("%d rows of %d", len(table), len(rows))
	}
}
