package stub_test

import "testing"

// The test the Example shows, run.
func TestEvenPacing(t *testing.T) { testEvenPacing(t) }
