package history

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline"
)

// BenchmarkWrite is what the row of a usual request costs, of a hundred that
// are written together.
func BenchmarkWrite(b *testing.B) {
	f := file{path: filepath.Join(b.TempDir(), "log.db"), logger: slog.New(slog.DiscardHandler)}
	defer f.close()
	now := time.Now()
	records := make([]paceline.Record, 100)
	for i := range records {
		records[i] = paceline.Record{
			ID: "ABCDEFGHIJKLMNOP", Attempt: 1, Arrived: now, Sent: now, Done: now, Provider: "openai", Credential: "openai#1",
			Scope: "gpt-4o", Model: "gpt-4o", Status: 200, Class: "ok", Client: "127.0.0.1 python", Priority: "normal",
			InTokens: 100, OutTokens: 100,
		}
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if n%len(records) > 0 {
			continue
		}
		if err := f.write(records, nil); err != nil {
			b.Fatal(err)
		}
	}
}
