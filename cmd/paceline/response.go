package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"regexp"
	"strconv"
	"strings"

	"github.com/paceline-proxy/paceline/dialect"
)

// A response is one as a person has it before them.
type response struct {
	head dialect.Head
	body []byte
}

var statusLine = regexp.MustCompile(`^HTTP/[0-9](?:\.[0-9])? ([1-9][0-9]{2})(?: .*)?$`)

// parseResponse reads a response as curl -i prints it. Of several heads (100
// Continue, a proxy's, redirects) the last one counts. The body is as curl
// prints it, decoded, or as it was sent.
func parseResponse(raw []byte) (response, error) {
	var res response
	rest := bytes.TrimLeft(bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf")), " \t\r\n")
	if len(rest) == 0 {
		return res, errors.New("it is empty; give it what curl -i prints: curl -isS URL | paceline explain")
	}
	line := 1 + bytes.Count(raw[:len(raw)-len(rest)], []byte("\n"))
	for {
		h, body, lines, err := parseHead(rest, line)
		if err != nil {
			return res, err
		}
		res.head, rest, line = h, body, line+lines
		if first, _ := cutLine(bytes.TrimLeft(rest, "\r\n")); !statusLine.MatchString(first) {
			break
		}
		line += bytes.Count(rest[:len(rest)-len(bytes.TrimLeft(rest, "\r\n"))], []byte("\n"))
		rest = bytes.TrimLeft(rest, "\r\n")
	}
	if date, err := http.ParseTime(res.head.Header.Get("Date")); err == nil {
		res.head.Date = date
	}
	res.body = plainBody(res.head.Header, rest)
	return res, nil
}

// parseHead reads a status line and the headers behind it, to the empty line or
// the end. line is the number of the first line, lines how many there were.
func parseHead(raw []byte, line int) (h dialect.Head, rest []byte, lines int, err error) {
	first, rest := cutLine(raw)
	m := statusLine.FindStringSubmatch(first)
	if m == nil {
		return h, nil, 0, fmt.Errorf("line %d is %q; a response begins with a line such as \"HTTP/1.1 429 Too Many Requests\": curl prints it with -i", line, shortened(first))
	}
	h.Status, _ = strconv.Atoi(m[1])
	h.Header = make(http.Header)
	last := ""
	for lines = 1; len(rest) > 0; lines++ {
		var text string
		if text, rest = cutLine(rest); text == "" {
			return h, rest, lines + 1, nil
		}
		name, value, found := strings.Cut(text, ":")
		switch {
		case last != "" && (text[0] == ' ' || text[0] == '\t'): // goes on from the line before
			values := h.Header[last]
			values[len(values)-1] += " " + strings.TrimSpace(text)
			continue
		case !found || strings.TrimSpace(name) == "":
			return h, nil, 0, fmt.Errorf("line %d is %q, and neither a header nor the empty line that ends them; write headers as \"retry-after: 20\"", line+lines, shortened(text))
		}
		last = http.CanonicalHeaderKey(name)
		h.Header[last] = append(h.Header[last], strings.TrimSpace(value))
	}
	return h, nil, lines, nil
}

// cutLine takes a line off, without what ends it.
func cutLine(raw []byte) (line string, rest []byte) {
	first, rest, _ := bytes.Cut(raw, []byte("\n"))
	return strings.TrimRight(string(first), "\r"), rest
}

func shortened(s string) string {
	if len(s) > 60 {
		s = s[:60] + "…"
	}
	return s
}

// plainBody undoes the encodings of a body that is still in them.
func plainBody(h http.Header, body []byte) []byte {
	if strings.EqualFold(h.Get("Transfer-Encoding"), "chunked") {
		if plain, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(body))); err == nil && len(body) > 0 {
			body = plain
		}
	}
	if z, err := gzip.NewReader(bytes.NewReader(body)); err == nil {
		if plain, err := io.ReadAll(io.LimitReader(z, mostResponse)); err == nil {
			body = plain
		}
	}
	if len(body) == 0 {
		return nil
	}
	return body
}
