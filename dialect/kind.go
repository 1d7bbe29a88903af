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
	"batchEmbedContents", "predict", "rawPredict", "streamRawPredict", "serverStreamingPredict", "generateAnswer",
	"predictLongRunning",
}

// healthPaths are the ends of paths that only ask whether a server is there and
// what it has.
var healthPaths = []string{"/health", "/healthz", "/livez", "/readyz", "/ping", "/api/version", "/api/tags",
	"/health/liveliness", "/health/liveness", "/health/readiness", "/v1/health/ready",
}

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
		if endsIn(path, inferencePaths) {
			return Inference
		}
	case http.MethodGet, http.MethodHead, "":
		if endsIn(path, healthPaths) {
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

// kindBy is the usual kind, with more ends of paths that generate something when
// they are posted to, and that tell what there is when they are got.
func kindBy(posted, got []string) func(*http.Request) Kind {
	return func(r *http.Request) Kind {
		switch {
		case r != nil && r.URL != nil && r.Method == http.MethodPost && endsIn(r.URL.Path, posted):
			return Inference
		case getsEndingIn(r, got...):
			return Catalog
		}
		return usualKind(r)
	}
}

// getsEndingIn is true for a request that gets a path with one of the ends.
func getsEndingIn(r *http.Request, ends ...string) bool {
	return r != nil && r.URL != nil && (r.Method == http.MethodGet || r.Method == http.MethodHead) && endsIn(r.URL.Path, ends)
}

func endsIn(path string, ends []string) bool {
	path = strings.TrimRight(path, "/")
	return slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(path, end) })
}
