package file

import (
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
