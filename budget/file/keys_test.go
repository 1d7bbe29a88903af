package file

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Keys lists what has been stored, whatever else is in the directory.
func TestKeys(t *testing.T) {
	s := open(t)
	want := []string{"openai/0a1b2c3d/", "openai/0a1b2c3d/gpt-5", "openai/~operator", "Straße/a%2Fb/"}
	for _, key := range want {
		put(t, s, key, `{"factor":{"value":0.5}}`)
	}
	for name, content := range map[string]string{
		"torn.json": `{"version":1,"key":"to`, "newer.json": `{"version":99,"key":"newer"}`, "readme.txt": "hi",
		"copy-of-openai.json": `{"version":1,"key":"openai/0a1b2c3d/"}`,
	} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Keys()
	slices.Sort(got)
	slices.Sort(want)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

// What is wrong with a store is found, and nothing where nothing is.
func TestFaults(t *testing.T) {
	s := open(t)
	put(t, s, key, `1`)
	if faults := s.Faults(); len(faults) > 0 {
		t.Errorf("faults of a sound store: %v", faults)
	}
	for name, content := range map[string]string{"a.json": "garbage", "b.json": `{"version":9,"key":"x"}`, "c.json": `{"version":1,"key":"x","state":{}}`, "d.txt": "not ours"} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	faults := s.Faults()
	newer := 0
	for _, err := range faults {
		if errors.Is(err, ErrNewer) {
			newer++
		}
	}
	if len(faults) != 3 || newer != 1 {
		t.Errorf("%v", faults)
	}
	if keys, err := s.Keys(); err != nil || len(keys) != 1 {
		t.Errorf("keys %v, %v", keys, err)
	}
}
