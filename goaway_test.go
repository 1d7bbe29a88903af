package paceline_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/limiter/memory"
)

// The frames of HTTP/2 that a going server needs.
const (
	frameHeaders, frameReset, frameSettings, frameGoAway = 1, 3, 4, 7

	endStream, endHeaders = 1, 4
	refusedStream         = 7
)

// A goingServer speaks just enough HTTP/2 to leave. On its first connection it
// answers one stream, waits for so many more, leaves some of them unprocessed
// in its way, and answers the others; from then on it answers all.
type goingServer struct {
	streams int
	leave   func(c net.Conn, ids []uint32) (served []uint32)
	conns   atomic.Int32
	arrived atomic.Int32
}

func frame(c net.Conn, kind, flags byte, stream uint32, payload ...byte) {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	b = append(b, flags)
	b = binary.BigEndian.AppendUint32(b, stream)
	c.Write(append(b, payload...))
}

func (s *goingServer) serve(c net.Conn) {
	defer c.Close()
	first := s.conns.Add(1) == 1
	preface := make([]byte, 24)
	if _, err := io.ReadFull(c, preface); err != nil {
		return
	}
	frame(c, frameSettings, 0, 0)
	var ids []uint32
	answer := func(id uint32) { frame(c, frameHeaders, endStream|endHeaders, id, 0x88) } // :status: 200
	for head := make([]byte, 9); ; {
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head)>>8)); err != nil {
			return
		}
		kind, flags, id := head[3], head[4], binary.BigEndian.Uint32(head[5:])
		if kind == frameSettings && flags == 0 {
			frame(c, frameSettings, 1, 0) // seen
		}
		if id == 0 || flags&endStream == 0 {
			continue
		}
		if s.arrived.Add(1) == 1 || !first {
			answer(id)
			continue
		}
		if ids = append(ids, id); len(ids) == s.streams {
			for _, id := range s.leave(c, ids) {
				answer(id)
			}
			first = false
		}
	}
}

// envoyproxy/envoy#36450: streams that a server says it has not processed, by a
// GOAWAY or one by one, are sent again at once, here where a repeat would wait
// for an hour and none is allowed.
func TestUnprocessedStreams(t *testing.T) {
	for name, leave := range map[string]func(net.Conn, []uint32) []uint32{
		"GOAWAY": func(c net.Conn, ids []uint32) []uint32 {
			last := binary.BigEndian.AppendUint32(nil, ids[0])
			frame(c, frameGoAway, 0, 0, append(last, 0, 0, 0, 0)...)
			return ids[:1]
		},
		"REFUSED_STREAM": func(c net.Conn, ids []uint32) []uint32 {
			for _, id := range ids[1:] {
				frame(c, frameReset, 0, id, 0, 0, 0, refusedStream)
			}
			return ids[:1]
		},
	} {
		t.Run(name, func(t *testing.T) {
			const n = 6
			s := &goingServer{streams: n, leave: leave}
			addr := listen(t, s.serve)
			base := &http.Transport{Protocols: new(http.Protocols)}
			base.Protocols.SetUnencryptedHTTP2(true)
			defer base.CloseIdleConnections()
			var sent atomic.Int32
			tr := &paceline.Transport{Base: base, Limiter: memory.New(), Log: func(paceline.Record) { sent.Add(1) },
				Providers: []paceline.Provider{{Name: "p", BaseURL: "http://" + addr, Retry: paceline.Retry{Base: time.Hour, Max5xx: -1}}}}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			ask := func() {
				res, err := tr.RoundTrip(request(ctx, "POST", "http://"+addr+"/v1/chat/completions", "{}"))
				if err != nil {
					t.Error(err)
					return
				}
				if res.Body.Close(); res.StatusCode != 200 {
					t.Error(res.Status)
				}
			}
			ask() // the connection is there
			var all sync.WaitGroup
			for range n {
				all.Go(ask)
			}
			all.Wait()
			if want := int32(1 + n + n - 1); sent.Load() != want || s.arrived.Load() != want {
				t.Errorf("%d attempts, %d arrived; want %d", sent.Load(), s.arrived.Load(), want)
			}
		})
	}
}
