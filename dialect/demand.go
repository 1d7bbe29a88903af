package dialect

import (
	"net/http"
	"strings"
)

// bytesPerToken is the uncalibrated guess that calibration starts from.
const bytesPerToken = 4

// estimate is the usual Demand: what the request's JSON says of itself, and its
// length for the input.
func estimate(r *http.Request, body []byte) Demand {
	var d Demand
	size := int64(len(body))
	if r != nil {
		size = max(size, r.ContentLength)
		d.Model, d.Stream = fromPath(r)
		d.Job = r.URL != nil && strings.HasSuffix(strings.TrimRight(r.URL.Path, "/"), "/videos")
	}
	d.Input = int(min(size/bytesPerToken, 1<<31-1))
	for name, value := range topLevel(body) {
		switch name {
		case "model":
			if s, ok := value.text(); ok {
				d.Model = s
			}
		case "stream":
			d.Stream = string(value) == "true"
		case "background":
			d.Job = d.Job || string(value) == "true"
		case "max_tokens", "max_completion_tokens", "max_output_tokens":
			// The newer names are the older ones' successors: whichever allows
			// more is what may be charged.
			d.Output = max(d.Output, value.natural())
		case "generationConfig", "generation_config":
			for name, value := range topLevel(value) {
				if name == "maxOutputTokens" || name == "max_output_tokens" {
					d.Output = max(d.Output, value.natural())
				}
			}
		}
	}
	return d
}

// fromPath reads what some APIs put into the path: Google the model and the
// way of answering, Azure the deployment.
func fromPath(r *http.Request) (model string, stream bool) {
	if r.URL == nil {
		return "", false
	}
	path := r.URL.Path
	for _, before := range []string{"/models/", "/deployments/"} {
		if _, rest, found := strings.Cut(path, before); found {
			model, _, _ = strings.Cut(rest, "/")
			model, verb, _ := strings.Cut(model, ":")
			return model, strings.HasPrefix(verb, "stream")
		}
	}
	return "", false
}
