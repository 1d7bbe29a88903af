package proxy

import (
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/paceline-proxy/paceline"
)

// headroom says how much each stored key has left, as the Transport saw it a
// moment ago: asking for every request would cost more than it is worth.
type headroom struct {
	transport *paceline.Transport

	mu    sync.Mutex
	asked time.Time
	lines []paceline.CallerStatus
	given map[string]int // requests since then, by provider and credential
}

// fresh is how long what was seen is good for.
const fresh = 200 * time.Millisecond

// of is what a credential has left: the smallest remaining ÷ limit of its
// buckets, 0 while it is paused, and how many requests it has in hand.
func (h *headroom) of(provider, credential string) (left float64, busy int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := time.Now(); now.Sub(h.asked) > fresh {
		h.asked, h.lines, h.given = now, h.transport.Status(), make(map[string]int)
	}
	left, busy = 1, h.given[provider+"/"+credential]
	for _, l := range h.lines {
		if l.Provider != provider || l.Credential != credential {
			continue
		}
		busy += l.Active + l.Held + l.Waiting.Interactive + l.Waiting.Normal + l.Waiting.Background
		if l.PausedUntil.After(h.asked) {
			left = 0
		}
		for _, b := range l.Buckets {
			if b.Remaining != nil && b.Limit != nil && *b.Limit > 0 {
				left = min(left, float64(*b.Remaining)/float64(*b.Limit))
			}
		}
	}
	return left, busy
}

// enough is the headroom with which a conversation stays with its key.
const enough = 0.1

// credential chooses one of a provider's keys: that of the conversation while
// it has enough left, else the one with the most, and of equals the least
// busy.
func (h *headroom) credential(up *upstream, conversation string) (chosen string) {
	cs := up.Credentials
	if len(cs) == 1 {
		return cs[0].Name
	}
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.given[up.Name+"/"+chosen]++
	}()
	if conversation != "" {
		sum := fnv.New32a()
		sum.Write([]byte(conversation))
		own := cs[sum.Sum32()%uint32(len(cs))].Name
		if left, _ := h.of(up.Name, own); left >= enough {
			return own
		}
	}
	return slices.MaxFunc(cs, func(a, b paceline.Credential) int {
		aLeft, aBusy := h.of(up.Name, a.Name)
		bLeft, bBusy := h.of(up.Name, b.Name)
		switch {
		case aLeft > bLeft || aLeft == bLeft && aBusy < bBusy:
			return 1
		case aLeft == bLeft && aBusy == bBusy:
			return 0
		}
		return -1
	}).Name
}
