package sqlite

import (
	"context"
	"path/filepath"
	"testing"
)

// Durable is a sync of the disk for each grant; else the system writes it when it
// likes.
func TestDurable(t *testing.T) {
	for durable, want := range map[bool]int{false: 1, true: 2} {
		l, err := open(context.Background(), filepath.Join(t.TempDir(), "limits.db"), Options{Durable: durable}, thisMachine())
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		var got int
		if err := l.conn.QueryRowContext(context.Background(), "PRAGMA synchronous").Scan(&got); err != nil || got != want {
			t.Errorf("durable %t: synchronous is %d: %v", durable, got, err)
		}
		ask(t, l, aMinute)
	}
}
