package config

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/paceline-proxy/paceline"
)

const docs = "../../docs/configuration.md"

// docs/configuration.md is made from the table: go test ./internal/config -update.
func TestDocs(t *testing.T) {
	got := documentation(t)
	if *update {
		if err := os.WriteFile(docs, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	if string(b) != got {
		t.Errorf("%s is not what the table says: go test ./internal/config -update", docs)
	}
}

// Every key says what it is for, and what holds without it.
func TestEveryKeyIsDocumented(t *testing.T) {
	walk("", table(Default()), func(path string, f field) {
		if f.doc == "" || !strings.HasSuffix(f.doc, ".") {
			t.Errorf("%s: %q is no sentence", path, f.doc)
		}
		if strings.HasPrefix(path, "providers") && f.def == "" && f.later == "" && !grouped(f.kind) && f.kind.show() == nil && !strings.HasSuffix(path, "apiKey") && !strings.Contains(path, "windows[]") && !strings.Contains(path, "upstream") {
			t.Errorf("%s says no default", path)
		}
	})
}

func documentation(t *testing.T) string {
	example, err := os.ReadFile("testdata/good/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString(`# Configuration

<!-- Made from the table in internal/config: go test ./internal/config -update -->

None is needed: the providers that are built in work with the client's own key.
A configuration is one YAML file (JSON is YAML, too): the one that --config
names, else $PACELINE_CONFIG, else paceline.yaml in the home. The home is
$PACELINE_HOME, else ~/.local/share/paceline (Linux; $XDG_DATA_HOME/paceline where
that is set), ~/Library/Application Support/paceline (macOS) or
%LocalAppData%\paceline (Windows).

    paceline check                 says everything that is wrong with it, and what would be in force
    paceline config show           prints what is in force, secrets hidden
    paceline config schema         prints a JSON Schema for editors
    paceline reload                has the running proxy read it again, without dropping a request

A file with a fault is not used, in part either: a proxy that runs goes on with
what it has.

## An example

` + "```yaml\n" + string(example) + "```" + `

## Values

- **Times** (keys that end in Ms or Secs) are whole numbers of that unit, or
  durations such as 90s, 10m or 4h.
- **Numbers of requests** may be written with k and M: 10k is 10000. Bytes may be
  written with KiB, MiB and GiB.
- **Variables**: ${NAME} in any value stands for the environment variable NAME,
  and $$ for a $. A variable that there is not is a fault. Inside { } and [ ]
  such a value needs quotes.
- **Secrets** (apiKey, and the value of a token) are best written as ${NAME}, or
  as file:PATH: what is in the file, without the space around it. A path that is
  not absolute begins at the configuration file. A file that other users can read
  is warned of. No secret is ever printed or logged.
- **Anchors, aliases and merge keys** (&a, *a, <<) work.
- **Short names** stand beside the long ones, and only one of the two may be
  given: rps, rpm, rph, rpd for requests a second, minute, hour and day.

`)
	section(&b, "Keys", table(Default()), "")
	b.WriteString("## Built-in providers\n\nAn entry with one of these names starts from what is here. Those without limits\nlive on what their providers tell, and learn.\n\n| name | base URL | limits |\n|---|---|---|\n")
	for _, p := range paceline.BuiltIn() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", p.Name, p.BaseURL, Describe(p.Limits))
	}
	return b.String()
}

// section writes the keys of one mapping, and those of the mappings in it.
func section(b *strings.Builder, title string, o object, path string) {
	fmt.Fprintf(b, "## %s\n\n| key | value | default | what for |\n|---|---|---|---|\n", title)
	for _, f := range o.fields {
		name := f.name
		if f.alias != "" {
			name += ", " + f.alias
		}
		doc := f.doc
		if f.later != "" {
			doc += " Not supported yet: " + f.later + "."
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", name, value(f, path), defaultOf(f), doc)
	}
	b.WriteString("\n")
	if strings.HasSuffix(path, ".MODEL") {
		return // they are those of the provider
	}
	for _, f := range o.fields {
		if inner, at, ok := mapping(f, path); ok {
			section(b, at, inner, at)
		}
	}
}

func value(f field, path string) string {
	if strings.HasSuffix(path, ".MODEL") {
		return "the keys of providers.NAME.limits up to safetyMargin"
	}
	if _, at, ok := mapping(f, path); ok {
		says := "see " + at
		if o, ok := f.kind.(object); ok && o.off != nil {
			says = "false, or " + says
		}
		return says
	}
	return strings.ReplaceAll(f.kind.says(), "|", "\\|")
}

func defaultOf(f field) string {
	switch v := f.kind.show().(type) {
	case yaml.MapSlice:
		return ""
	case nil:
		return f.def
	default:
		if f.def != "" {
			return f.def
		}
		return fmt.Sprint(v)
	}
}

func grouped(k kind) bool {
	_, _, ok := mapping(field{kind: k}, "")
	return ok
}

// mapping is the mapping that a key's value is or holds, and what it is called.
func mapping(f field, path string) (inner object, at string, ok bool) {
	at = join(path, f.name)
	k := f.kind
	for {
		switch v := k.(type) {
		case object:
			return v, at, true
		case list[Token]:
			k, at = v.of(new(Token)), at+"[]"
		case list[paceline.Credential]:
			k, at = v.of(new(paceline.Credential)), at+"[]"
		case list[paceline.Window]:
			k, at = v.of(new(paceline.Window)), at+"[]"
		case named[Client]:
			k, at = v.of(new(Client)), at+".NAME"
		case named[Provider]:
			k, at = v.of(new(Provider)), at+".NAME"
		case named[paceline.Limits]:
			k, at = v.of(new(paceline.Limits)), at+".MODEL"
		default:
			return object{}, at, false
		}
	}
}

// walk visits every key there is.
func walk(path string, o object, visit func(path string, f field)) {
	for _, f := range o.fields {
		visit(join(path, f.name), f)
		if inner, at, ok := mapping(f, path); ok {
			walk(at, inner, visit)
		}
	}
}
