package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts run the real program: the test binary under another name.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"paceline": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata"})
}
