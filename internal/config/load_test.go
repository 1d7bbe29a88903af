package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
)

// write makes a file of a test.
func write(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	// The umask may have taken some of it.
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestNoFileIsTheDefault(t *testing.T) {
	c, err := Load("")
	if err != nil || !reflect.DeepEqual(c, Default()) {
		t.Errorf("%+v %v", c, err)
	}
	if c.Listens || c.Listen[0] != "localhost:8790" {
		t.Errorf("listen %v", c.Listen)
	}
}

func TestFind(t *testing.T) {
	home := t.TempDir()
	t.Setenv("PACELINE_CONFIG", "")
	if path, ok := Find("", home); ok || path != "" {
		t.Errorf("%q in an empty home", path)
	}
	inHome := write(t, filepath.Join(home, "paceline.yaml"), "", 0o600)
	if path, ok := Find("", home); !ok || path != inHome {
		t.Errorf("%q, want the one in the home", path)
	}
	// What somebody names is read, or an error, whether it is there or not.
	t.Setenv("PACELINE_CONFIG", "nowhere.yaml")
	if path, ok := Find("", home); !ok || path != "nowhere.yaml" {
		t.Errorf("%q, want that of the environment", path)
	}
	if path, ok := Find("flag.yaml", home); !ok || path != "flag.yaml" {
		t.Errorf("%q, want that of the flag", path)
	}
}

func TestFilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]string{
		filepath.Join(dir, "nowhere.yaml"): "cannot be read: no such file or directory; name a configuration file, or none for the defaults",
		dir:                                "is a directory; name a configuration file, or none for the defaults",
		write(t, filepath.Join(dir, "big.yaml"), strings.Repeat("# is this a log?\n", 700000), 0o600): "is larger than 256 KiB; name a configuration file, or none for the defaults",
		write(t, filepath.Join(dir, "words.yaml"), strings.Repeat("[", 40000), 0o600):                 "has more than 30000 words and signs; is it a configuration?",
	} {
		_, err := Load(path)
		if err == nil || err.Error() != path+": "+want {
			t.Errorf("got %v\nwant %s: %s", err, path, want)
		}
	}
}

func TestEmptyFiles(t *testing.T) {
	for _, text := range []string{"", "\n\n", "# nothing\n", "\ufeff", "---\n"} {
		c, err := load("f", []byte(text), environment, false)
		if err != nil || len(c.Warnings) != 1 || c.Warnings[0].Error() != "f: is empty; the defaults hold" {
			t.Errorf("%q: %v %v", text, c, err)
		}
	}
}

func TestEncodings(t *testing.T) {
	for _, text := range []string{
		"\ufeffmode: observe\r\nproviders:\r\n  groq: {}\r\n",
		"mode: observe\nproviders:\n  groq:",
		"---\nmode: observe\nproviders: {groq: null}\n...\n",
		`{"mode":"observe","providers":{"groq":{}}}`,
	} {
		c, err := load("f", []byte(text), environment, false)
		if err != nil || c.Mode != Observe || len(c.Providers) != 1 || c.Providers[0].BaseURL != "https://api.groq.com/openai/v1" {
			t.Errorf("%q: %v %v", text, c, err)
		}
	}
}

// What aliases multiply stays bounded, in time and in what is said.
func TestAliasesOfAliases(t *testing.T) {
	var b strings.Builder
	b.WriteString("providers:\n  p0: &p0 {nope: 1}\n")
	for i := 1; i < 40; i++ {
		// Each is twice the one before.
		last := "*p" + string(rune('0'+(i-1)%10)) + strings.Repeat("x", (i-1)/10)
		name := "p" + string(rune('0'+i%10)) + strings.Repeat("x", i/10)
		b.WriteString("  " + name + ": &" + name + "\n    <<: [" + last + ", " + last + "]\n")
	}
	start := time.Now()
	_, err := load("f", []byte(b.String()), environment, false)
	if err == nil || !strings.Contains(err.Error(), "the aliases make more of the file than any configuration has; write less") {
		t.Errorf("%v", err)
	}
	if faults, _ := errors.AsType[Faults](err); len(faults) > mostFaults+1 {
		t.Errorf("%d faults", len(faults))
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("it took %v", took)
	}
}

func TestManyFaults(t *testing.T) {
	_, err := load("f", []byte("tokens:\n"+strings.Repeat("- 1\n", 1000)), environment, false)
	faults, _ := errors.AsType[Faults](err)
	if len(faults) != mostFaults+1 || faults[mostFaults].Error() != "f: there may be more; mend these first" {
		t.Errorf("%d faults, %v", len(faults), faults[len(faults)-1])
	}
}

func TestSecretsFromFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "key"), "  SECRET-KEY\r\n", 0o600)
	write(t, filepath.Join(dir, "token"), "pcl_SECRET-SECRET-12\n", 0o640)
	t.Setenv("PACELINE_TEST_DIR", dir)
	t.Setenv("HOME", dir)
	path := write(t, filepath.Join(dir, "paceline.yaml"), `
tokens:
- {name: a, value: file:token}
providers:
  groq: {apiKey: file:key}
  openai: {apiKey: "file:${PACELINE_TEST_DIR}/key"}
  mistral: {apiKey: file:~/key}
`, 0o644)
	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range c.Providers {
		if got := p.Credentials[0].Key; got != "SECRET-KEY" {
			t.Errorf("%s: %q", p.Name, got)
		}
	}
	if c.Tokens[0].Value != "pcl_SECRET-SECRET-12" {
		t.Errorf("%q", c.Tokens[0].Value)
	}
	want := path + ":3:13: tokens[0].value: the file of the secret can be read by other users; chmod 600 it"
	if runtime.GOOS == "windows" {
		want = ""
	}
	if got := c.Warnings.Error(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}

	// What a file must not be, said without what is in it.
	for text, want := range map[string]string{
		"":                         "the file of the secret is empty",
		" \n ":                     "the file of the secret is empty",
		"SECRET SECRET":            "holds a space, a line break or a sign that no secret has",
		"SECRET\nSECRET":           "holds a space, a line break or a sign that no secret has",
		strings.Repeat("S", 1<<17): "the file of the secret is larger than 64 KiB",
		"SECRET\x00":               "holds a space, a line break or a sign that no secret has",
		"pcl_SECRET":               "is a token of paceline, not a key",
	} {
		write(t, filepath.Join(dir, "key"), text, 0o600)
		_, err := Load(path)
		faults, _ := errors.AsType[Faults](err)
		if len(faults) != 3 || faults[0].Problem != want || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%.20q: got %v\nwant %s", text, err, want)
		}
	}
	if os.Getuid() != 0 {
		write(t, filepath.Join(dir, "key"), "SECRET", 0o000)
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "cannot be read: permission denied") {
			t.Errorf("%v", err)
		}
	}
}

// A secret in a file that others can read is a warning; a reference is none.
func TestSecretsInAnOpenFile(t *testing.T) {
	const text = "providers:\n  groq: {apiKey: SECRET}\n  openai: {apiKey: \"${WORD}\"}\n"
	c, err := load("f", []byte(text), environment, true)
	if err != nil {
		t.Fatal(err)
	}
	const want = "f:2:10: providers.groq.apiKey: is written here, and other users can read this file; chmod 600 it, or write file: and the path of a file that holds the secret"
	if got := c.Warnings.Error(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestVariables(t *testing.T) {
	for text, want := range map[string]string{
		"a${WORD}b": "aSECRET-WORDb", "$$": "$", "$${WORD}": "${WORD}", "$WORD": "$WORD", "$$$": "$$", "${EMPTY}": "", "a$": "a$",
	} {
		got, problems := expand(text, environment)
		if got != want || problems != nil {
			t.Errorf("%q: %q %v, want %q", text, got, problems, want)
		}
	}
	for _, text := range []string{"${", "${}", "${1}", "${A B}", "${A:-b}", "${MISSING}", "${WORD}${"} {
		if got, problems := expand(text, environment); problems == nil {
			t.Errorf("%q is read as %q", text, got)
		}
	}
}

func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*", "testdata/bad/*.yaml"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	f.Add([]byte("a: &a {<<: *a}"))
	f.Add([]byte("? {a: b}\n: c"))
	f.Add([]byte("providers: {groq: {apiKey: file:/etc/passwd}}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := load("paceline.yaml", b, func(string) (string, bool) { return "VARIABLE-VALUE", true }, false)
		if err != nil {
			if faults, ok := errors.AsType[Faults](err); !ok || len(faults) == 0 || strings.Contains(err.Error(), "VARIABLE-VALUE") && !strings.Contains(string(b), "VARIABLE") {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		shownAgain(t, "what was read", c)
	})
}
