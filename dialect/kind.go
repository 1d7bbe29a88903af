package dialect

import (
	"net/http"
	"slices"
	"strings"
)

// inferencePaths are the ends of paths that generate something.
var inferencePaths = []string{
	"/completions", // and /chat/completions, /fim/completions
	"/responses", "/messages", "/embeddings", "/moderations",
	"/images/generations", "/images/edits", "/images/variations",
	"/audio/speech", "/audio/transcriptions", "/audio/translations",
	"/videos", "/rerank", "/embed", "/generate", "/generate_stream",
	"/api/chat", "/api/embed", "/api/embeddings", "/infill", "/chat",
	"/invoke", "/invoke-with-response-stream", "/converse", "/converse-stream",
}

// inferenceVerbs follow a colon in Google's paths.
var inferenceVerbs = []string{
	"generateContent", "streamGenerateContent", "embedContent",
	"batchEmbedContents", "predict", "rawPredict", "streamRawPredict", "generateAnswer",
}

// healthPaths are the ends of paths that only ask whether a server is there and
// what it has.
var healthPaths = []string{"/health", "/healthz", "/livez", "/readyz", "/ping", "/api/version", "/api/tags"}

// usualKind tells a request's kind by its method and the paths that most
// providers share.
func usualKind(r *http.Request) Kind {
	if r == nil || r.URL == nil {
		return Other
	}
	path := strings.TrimRight(r.URL.Path, "/")
	last := path[strings.LastIndexByte(path, '/')+1:]
	switch r.Method {
	case http.MethodPost:
		if _, verb, found := strings.Cut(last, ":"); found && slices.Contains(inferenceVerbs, verb) {
			return Inference
		}
		// A message added to a thread generates nothing.
		if strings.Contains(path, "/threads/") {
			return Other
		}
		if slices.ContainsFunc(inferencePaths, func(end string) bool { return strings.HasSuffix(path, end) }) {
			return Inference
		}
	case http.MethodGet, http.MethodHead, "":
		if slices.ContainsFunc(healthPaths, func(end string) bool { return strings.HasSuffix(path, end) }) {
			return Catalog
		}
		if at := strings.LastIndex(path+"/", "/models/"); at >= 0 {
			// A model's id may hold slashes; an operation below it is polled.
			if !strings.Contains(path[at:], "/operations/") {
				return Catalog
			}
		}
	}
	return Other
}
