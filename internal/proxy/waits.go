package proxy

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/paceline-proxy/paceline"
)

// waits are the requests that wait now, by their ids. Who has sent one under an
// id of its own (X-Paceline-Request-Id) can ask what it waits for, and have it
// sent in spite of an observed budget.
type waits struct {
	mu   sync.Mutex
	open map[string]*paceline.Wait
}

func (w *waits) note(now *paceline.Wait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == nil {
		w.open = make(map[string]*paceline.Wait)
	}
	if now.Over {
		delete(w.open, now.ID)
	} else {
		w.open[now.ID] = now
	}
}

// answer answers GET /control/waits, with all of them in the order in which
// they began, and /control/waits/ID. It reports false for other names.
func (w *waits) answer(rw http.ResponseWriter, name string) bool {
	id, one := strings.CutPrefix(name, "waits/")
	if !one && name != "waits" {
		return false
	}
	w.mu.Lock()
	all := slices.Collect(maps.Values(w.open))
	found := w.open[id]
	w.mu.Unlock()
	rw.Header().Set("Cache-Control", "no-store")
	switch {
	case !one:
		slices.SortFunc(all, func(a, b *paceline.Wait) int {
			return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID))
		})
		writeJSON(rw, http.StatusOK, map[string]any{"waits": append([]*paceline.Wait{}, all...)})
	case found == nil:
		(&failure{http.StatusNotFound, "paceline_control", fmt.Sprintf("no request %q waits", id)}).write(rw, openAI)
	default:
		writeJSON(rw, http.StatusOK, found)
	}
	return true
}

// sendAnyway has a request sent that waits for an observed budget.
func (w *waits) sendAnyway(id string) error {
	w.mu.Lock()
	found := w.open[id]
	w.mu.Unlock()
	switch {
	case found == nil:
		return fmt.Errorf("no request %q waits", id)
	case !found.SendAnyway():
		return fmt.Errorf("the request %q waits for no observed budget: nothing is sent before a stated wait is over or against declared limits", id)
	}
	return nil
}
