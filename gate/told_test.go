package gate

import (
	"errors"
	"testing"
)

// Who has not heeded what it was told may be told something else before it does:
// that holds nobody up, and the later counts.
func TestToldTwice(t *testing.T) {
	w := &waiter{told: make(chan *answer, 1)}
	w.tell(refusal(errors.New("out of reach")))
	w.tell(answer{came: true, granted: true})
	if told := w.heed(); told == nil || !told.granted || told.err != nil {
		t.Errorf("it heeds %+v", told)
	}
	if told := w.heed(); told != nil {
		t.Errorf("and then %+v", told)
	}
}
