package dialect

import (
	"net/http"
	"strings"
)

// HuggingFace's hub has a fixed window of five minutes under the IETF names; its
// inference has credits of a month, and says why it refuses in a header.
var HuggingFace = &Dialect{
	Name:         "huggingface",
	KeyVariables: []string{"HF_TOKEN", "HUGGINGFACE_API_KEY"},
	Names:        []string{"hugging-face", "hf"},
	BaseURL:      "https://router.huggingface.co/v1",
	Hosts: []string{
		"huggingface.co", "router.huggingface.co", "api-inference.huggingface.co", ".endpoints.huggingface.cloud",
	},
	Reports:     true,
	Read:        reader{fixed: true}.read,
	Tells:       "the hub: IETF fields of five minutes; inference: a sentence in a header when it refuses",
	Kind:        huggingFaceKind,
	KeyPrefixes: []string{"hf_"},
}

// huggingFaceKind: a model's own path, and an endpoint, generate; of the hub every
// call counts.
func huggingFaceKind(r *http.Request) Kind {
	if r != nil && r.URL != nil {
		host := r.URL.Hostname()
		switch {
		case host == "huggingface.co",
			r.Method == http.MethodPost && (strings.Contains(r.URL.Path, "/models/") || strings.HasSuffix(host, ".endpoints.huggingface.cloud")):
			return Inference
		}
	}
	return usualKind(r)
}
