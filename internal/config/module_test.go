package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// folder makes a module's folder of a manifest.
func folder(t *testing.T, name, manifest string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ManifestFile), []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// L-14, L-15, L-16, L-17, L-18, L-19: what a manifest says.
func TestModule(t *testing.T) {
	for _, c := range []struct{ manifest, want string }{
		{"name: m\nkind: core\nslot: limiter\ncommand: [node, server.js]\n", `{m core limiter [node server.js]  []}`},
		{"name: m\nkind: core\nslot: limiter\nurl: http://localhost:1\n", `{m core limiter [] http://localhost:1 []}`},
		{`name: m
kind: core
slot: limiter
command:
  - ./run
  - --fast
url: unix:/run/slot.sock
settings:
  - name: url
    label: The database
    secret: true
  - {name: schema}
`, `{m core limiter [./run --fast] unix:/run/slot.sock [{url The database true} {schema  false}]}`},
	} {
		dir := folder(t, "m", c.manifest)
		m, err := LoadModule(dir)
		if err != nil {
			t.Errorf("%s: %v", c.manifest, err)
			continue
		}
		got := fmt.Sprintf("{%s %s %s %v %s %v}", m.Name, m.Kind, m.Slot, m.Command, m.URL, m.Settings)
		if got != c.want || m.Dir != dir {
			t.Errorf("%s: %s of %s, want %s", c.manifest, got, m.Dir, c.want)
		}
	}
}

// Everything that is wrong with a manifest is said at once, each with its line.
func TestModuleFaults(t *testing.T) {
	for _, c := range []struct{ manifest, want string }{
		{"", `name: is missing; write name: m
kind: is missing; write kind: core
slot: is missing; write slot: limiter
command: is missing; write command: [PROGRAM, ARGUMENT, …], or url: where the module runs already`},
		{`nmae: m
kind: tool
slot: storage
command: node server.js
url: localhost:8793
settings: {url: secret}
`, `:1:1: nmae: there is no such key (did you mean name?); write name
:1:1: name: is missing; write name: m
:2:7: kind: "tool" is not supported; write core
:3:7: slot: "storage" is not supported; write limiter
:4:10: command: is a single value, not a list; write [ ] around it, or each on a line that begins with -
:5:6: url: "localhost:8793" is no URL of a limiter; write http://HOST:PORT, https://HOST or unix:PATH
:6:11: settings: is a mapping, not a list; write [ ] around it, or each on a line that begins with -`},
		{`name: other
kind: core
slot: limiter
command: []
settings:
  - {label: The database, secret: yes}
  - {name: url}
  - {name: url}
  - {name: "a b"}
`, `:1:1: name: "other" is not the name of its folder, "m"; write name: m, or rename the folder
:4:1: command: names no program; write a list: [PROGRAM, ARGUMENT, …]
:6:5: settings[0]: has no name; write name: and what the module calls it
:6:35: settings[0].secret: "yes" is neither true nor false; write true
:8:6: settings[2].name: "url" is given twice, first as settings[1]; keep one of the two
:9:12: settings[3].name: "a b" is no name of a setting; write letters, digits, _, . and -, such as url`},
		{"- m\n", `is a list, not a mapping; write a mapping with name, kind, slot, command, url, settings`},
		{"name: [m\n", "cannot be read: "},
	} {
		_, err := LoadModule(folder(t, "m", c.manifest))
		if _, ok := errors.AsType[Faults](err); !ok {
			t.Errorf("%s: %v", c.manifest, err)
			continue
		}
		lines := strings.Split(err.Error(), "\n")
		for i, want := range strings.Split(c.want, "\n") {
			if i >= len(lines) || !strings.HasSuffix(lines[i], want) && !strings.Contains(lines[i], want) || !strings.Contains(lines[i], ManifestFile) {
				t.Errorf("%s:\n%v\nwant\n%s", c.manifest, err, c.want)
				break
			}
		}
		if n := strings.Count(c.want, "\n") + 1; len(lines) != n {
			t.Errorf("%s: %d faults, want %d:\n%v", c.manifest, len(lines), n, err)
		}
	}
	if _, err := LoadModule(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("no folder: %v", err)
	}
}

// Settings are read as they are written, from variables and from files.
func TestSettings(t *testing.T) {
	t.Setenv("TEST_DATABASE", "postgres://me:hunter2@db/x")
	dir := folder(t, "m", "name: m\nkind: core\nslot: limiter\ncommand: [x]\nsettings: [{name: url, secret: true}, {name: schema}, {name: other, secret: true}]\n")
	m, err := LoadModule(dir)
	if err != nil {
		t.Fatal(err)
	}
	if values, err := m.LoadSettings(); err != nil || len(values) != 0 {
		t.Errorf("no file: %v, %v", values, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte("from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	content, err := m.WriteSettings(map[string]string{"url": "${TEST_DATABASE}", "schema": Literal("it's: $5 # {x}"), "other": "file:key"})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(content), "hunter2") {
		t.Errorf("a reference was read: %s", content)
	}
	path := filepath.Join(dir, SettingsFile)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	values, err := m.LoadSettings()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"url": "postgres://me:hunter2@db/x", "schema": "it's: $5 # {x}", "other": "from a file"} {
		if got := values[name].Value; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got := values["url"].Written; got != "${TEST_DATABASE}" {
		t.Errorf("url is written %q", got)
	}

	// L-21: what is wrong is said without what is secret.
	if err := os.WriteFile(path, []byte("url: \"postgres://me:hunter2@db/x\\n\"\nurll: hunter2\nschema: ${TEST_NOTHING}\nother: file:none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = m.LoadSettings()
	const want = `:1:6: url: holds a line break or another control character; give the value alone
:2:1: urll: there is no such key (did you mean url?); write url
:3:9: schema: the environment has no TEST_NOTHING; set it where paceline is started
:4:8: other: the file of the setting cannot be read: no such file or directory; write file: and the path of a file that holds the value alone`
	if err == nil || strings.ReplaceAll(err.Error(), path, "") != want {
		t.Errorf("faults:\n%v\nwant\n%s", err, want)
	}

	// Nor may others read it.
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if values, err = m.LoadSettings(); err == nil || values["url"].Written != "${TEST_DATABASE}" || !strings.HasSuffix(err.Error(), "can be read by other users, and holds secrets; chmod 600 it") {
		t.Errorf("a file that others can read: %v", err)
	}
}

func TestReference(t *testing.T) {
	for written, want := range map[string]bool{
		"${NAME}": true, "${A}${B}": true, "file:/run/secret": true, "postgres://me:${PASSWORD}@db": true,
		"": false, "x": false, "$NAME": false, "$$": false, "$${NAME}": false, "${": false,
	} {
		if got := Reference(written); got != want {
			t.Errorf("%q: %v", written, got)
		}
	}
}
