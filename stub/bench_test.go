package stub_test

import (
	"io"
	"testing"

	"github.com/paceline-proxy/paceline/stub"
)

// What the stub itself costs in a measurement of something else.
func BenchmarkRoundTrip(b *testing.B) {
	for name, body := range map[string]string{"json": `{"model":"m"}`, "stream": `{"model":"m","stream":true}`} {
		b.Run(name, func(b *testing.B) {
			s := mustStub(b, stub.Config{})
			b.ReportAllocs()
			for b.Loop() {
				resp, err := s.RoundTrip(request(b.Context(), chat, body))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					b.Fatal(err)
				}
				resp.Body.Close()
			}
		})
	}
}
