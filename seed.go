package paceline

import "iter"

// Seed rebuilds what a limiter without its journal has lost from the records
// of the last longest window: windows, starts and stated waits.
func (t *Transport) Seed(records iter.Seq[Record]) error {
	t.once.Do(t.init)
	return t.err
}
