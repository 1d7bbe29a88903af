package dialect_test

import (
	"os"
	"testing"

	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/dialect/dialecttest"
)

// each folder of cases is named after a dialect and holds answers as they
// were captured, documented or made up. The dialect that the case's provider is
// known under must be the folder's.
func TestCases(t *testing.T) {
	providers, err := os.ReadDir("testdata/cases")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range providers {
		t.Run(p.Name(), func(t *testing.T) {
			d, ok := dialect.ByName(p.Name())
			if !ok {
				t.Fatal("no such dialect")
			}
			files := os.DirFS("testdata/cases/" + p.Name())
			dialecttest.Run(t, d, files)
			cases, _ := dialecttest.Load(files)
			for _, c := range cases {
				if other, ok := dialect.ByName(c.Provider); ok && other != d {
					t.Errorf("%s: %s is read by %s", c.Name, c.Provider, other.Name)
				}
			}
		})
	}
}

func TestEveryDialectHasCases(t *testing.T) {
	for _, d := range dialect.All {
		if _, err := os.Stat("testdata/cases/" + d.Name); err != nil {
			t.Errorf("%s: %v", d.Name, err)
		}
	}
}
