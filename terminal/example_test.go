package terminal_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/terminal"
)

// A program that makes one request, whose person sees it wait and can end that.
func Example() {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	waits := &terminal.Waits{Cancel: cancel}
	client := &http.Client{Transport: &paceline.Transport{OnWait: waits.OnWait}}

	req, err := http.NewRequestWithContext(ctx, "POST", "https://api.openai.com/v1/chat/completions", strings.NewReader(`{…}`))
	if err != nil {
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		fmt.Fprintln(os.Stderr, context.Cause(ctx)) // terminal.ErrCanceled, where the person chose that
		return
	}
	resp.Body.Close()
}
