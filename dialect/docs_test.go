package dialect_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/paceline-proxy/paceline/dialect"
)

var update = flag.Bool("update", false, "write the document that is made from code")

// document is docs/dialects.md as the code would have it.
func document() string {
	var b strings.Builder
	b.WriteString("# Dialects: how providers are read, and how they charge\n\n" +
		"A provider's entry speaks the dialect of its name or of its host; `dialect:` in its\n" +
		"entry says otherwise, and `paceline explain --provider NAME` shows how an answer is\n" +
		"read. Limits are of an account, or of each model in it. What a request counts as in\n" +
		"declared limits of tokens is the provider's rule: which input (what is read from its\n" +
		"cache may be free), and output as it is produced, or all that the request allows when\n" +
		"it is admitted. Made from code: `go test ./dialect -run Document -update`.\n\n" +
		"| dialect | also | hosts | what is read | limits of | input | output |\n|---|---|---|---|---|---|---|\n")
	list := func(words []string) string {
		if len(words) == 0 {
			return "–"
		}
		return "`" + strings.Join(words, "`, `") + "`"
	}
	for _, d := range dialect.All {
		m := d.Metering
		per, input, output := "account", "all", "as produced"
		switch {
		case m.PerModel && m.Group != nil:
			per = "model, or family of models"
		case m.PerModel:
			per = "model"
		}
		if m.Charges.CachedFree {
			input = "what is not from the cache"
		}
		switch m.Charges.Output {
		case dialect.Reserved:
			output = "what the request allows"
			if n := m.Charges.Default; n > 0 {
				output += fmt.Sprintf(", %d where it does not say", n)
			}
			if m.Charges.GivesBack {
				output += "; the rest is given back"
			}
		case dialect.Free:
			output = "free"
		}
		if d.AccountOf(everyHeader) != "" {
			per += "; the account is told"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %s |\n", d.Name, list(d.Names), list(d.Hosts), d.Tells, per, input, output)
	}
	return b.String()
}

// everyHeader has an answer to whatever is asked of it by name.
var everyHeader = map[string][]string{"Openai-Organization": {"o"}, "Anthropic-Organization-Id": {"a"}}

// The table of dialects in the docs is that of the code, and says something of
// each.
func TestDocument(t *testing.T) {
	const file = "../docs/dialects.md"
	want := document()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%s is not what the code says (%v): go test ./dialect -run Document -update", file, err)
	}
	for _, d := range dialect.All {
		if d.Tells == "" || strings.Contains(d.Tells, "|") {
			t.Errorf("%s says %q of what is read in its answers", d.Name, d.Tells)
		}
	}
}
