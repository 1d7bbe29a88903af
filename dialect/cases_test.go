package dialect_test

import (
	"os"
	"testing"

	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/dialect/dialecttest"
)

// Each folder of cases is named after a provider and read by its dialect; a
// provider nobody described yet is read by Generic, whose general rules these
// cases keep honest.
func TestCases(t *testing.T) {
	providers, err := os.ReadDir("testdata/cases")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range providers {
		t.Run(p.Name(), func(t *testing.T) {
			d, ok := dialect.ByName(p.Name())
			if !ok {
				d = dialect.Generic
			}
			dialecttest.Run(t, d, os.DirFS("testdata/cases/"+p.Name()))
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
