package proxy

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"github.com/paceline-proxy/paceline"
)

//go:embed ui.html
var uiSource string

var uiTemplate = template.Must(template.New("ui").Funcs(template.FuncMap{
	"left":  func(t time.Time) string { return time.Until(t).Round(time.Second).String() },
	"ahead": func(t time.Time) time.Duration { return max(0, time.Until(t).Round(time.Second)) },
	"at":    func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
}).Parse(uiSource))

// ui shows every line, and what binds it. The page has no script and asks
// nobody for anything: it loads itself again.
func (p *Proxy) ui(w http.ResponseWriter, _ *http.Request) {
	var page bytes.Buffer
	err := uiTemplate.Execute(&page, struct {
		Version  string
		Draining bool
		Now      time.Time
		Lines    []paceline.CallerStatus
		Refused  map[string]int
	}{p.o.Version, p.draining.Load(), time.Now(), p.o.Transport.Status(), p.metrics.refusals()})
	if err != nil {
		(&failure{http.StatusInternalServerError, "paceline_failed", fmt.Sprintf("the page could not be made: %v", err)}).write(w, openAI)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer") // the page's address may hold a token
	w.Write(page.Bytes())
}
