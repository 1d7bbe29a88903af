package dialect

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
)

// bytesPerToken is the uncalibrated guess that calibration starts from.
const bytesPerToken = 4

// estimate is the usual Demand: what the request says of itself, and its length
// for the input.
func estimate(r *http.Request, body []byte) Demand {
	var e estimator
	size := int64(len(body))
	if r != nil {
		size = max(size, r.ContentLength)
	}
	if bytes.HasPrefix(body, []byte("--")) {
		e.Model = formValue(body, "model")
		e.Stream = formValue(body, "stream") == "true"
		e.bytes, e.tokens = size, size/bytesPerBlobToken
	} else {
		e.read(body)
	}
	d := e.Demand
	d.Input = int(min((size-e.bytes)/bytesPerToken+e.tokens+int64(max(e.images, e.named))*imageTokens, 1<<31-1))
	d.Output = int(min(int64(d.Output)*int64(max(1, e.choices)), 1<<31-1))
	if r != nil && r.URL != nil {
		if model, stream := fromPath(r.URL); model != "" {
			d.Model, d.Stream = model, d.Stream || stream
		}
		d.Job = d.Job || endsIn(r.URL.Path, []string{"/videos", ":predictLongRunning"})
	}
	return d
}

// An estimator reads a request's JSON.
type estimator struct {
	Demand
	choices int
	// bytes of the body are no text; tokens is what those count that are no
	// images.
	bytes, tokens int64
	// images that stand in the body, and those that it names.
	images, named int
}

// read goes over the document once.
func (e *estimator) read(doc []byte) {
	for name, value := range fieldsOf(doc, e.see) {
		switch name {
		case "model":
			if s, ok := value.text(); ok {
				e.Model = s
			}
		case "stream":
			e.Stream = string(value) == "true"
		case "background":
			e.Job = e.Job || string(value) == "true"
		case "prompt_cache_key":
			if s, ok := value.text(); ok {
				e.Conversation = s
			}
		case "metadata":
			for name, value := range topLevel(value) {
				if s, ok := value.text(); ok && name == "user_id" && e.Conversation == "" {
					e.Conversation = s
				}
			}
		case "previous_response_id", "conversation", "conversation_id":
			e.Later = e.Later || string(value) != "null" && string(value) != `""`
		case "n", "best_of":
			e.choices = max(e.choices, value.natural())
		case "generationConfig", "generation_config", "inferenceConfig", "textGenerationConfig", "options", "parameters":
			for name, value := range topLevel(value) {
				e.limit(name, value)
			}
		default:
			e.limit(name, value)
		}
	}
}

// limit takes a field that bounds the answer. Where several do, the newer names
// are the older ones' successors: whichever allows more is what may be charged.
func (e *estimator) limit(name string, value raw) {
	switch name {
	case "max_tokens", "max_completion_tokens", "max_output_tokens", // OpenAI, Anthropic, most
		"maxOutputTokens", "maxTokens", "maxTokenCount", // Google, Bedrock, Titan
		"max_new_tokens", "num_predict", "n_predict", "max_gen_len", "max_tokens_to_sample":
		e.Output = max(e.Output, value.natural())
	case "candidateCount":
		e.choices = max(e.choices, value.natural())
	}
}

// see looks at a string of the document: whether it shows that the model has
// answered before, and whether it is text.
func (e *estimator) see(field string, depth int, name, value raw) {
	if len(value) >= leastBlob {
		e.blob(value)
		return
	}
	switch string(name) {
	case "role":
		if depth == 2 {
			switch string(value) {
			case `"assistant"`, `"model"`, `"CHATBOT"`:
				e.Later = true
			}
		}
	case "type":
		switch s := string(value); {
		case s == `"image_url"`, s == `"input_image"`, s == `"image"`:
			e.named++
		case field == "input" && depth == 2: // items of an earlier response
			e.Later = e.Later || s == `"reasoning"` || s == `"item_reference"` ||
				strings.HasSuffix(s, `_call"`) || strings.HasSuffix(s, `_output"`)
		}
	}
}

const (
	// leastBlob is the length from which on a string may be something else than
	// text.
	leastBlob = 512
	// imageTokens is what an image counts, about: providers scale it to a million
	// pixels or so, and cut it into pieces of a fixed price.
	imageTokens = 1000
	// bytesPerBlobToken is for documents and sound. A page is 100 KB and 2,000
	// tokens, a minute of sound 1 MB and as many.
	bytesPerBlobToken = 64
)

// imageStarts are the beginnings of images in base64: JPEG, PNG, GIF, WebP.
var imageStarts = []string{"/9j/", `\/9j\/`, "iVBOR", "R0lGOD", "UklGR"}

// blob takes a long string out of the text where it is base64.
func (e *estimator) blob(value raw) {
	s := bytes.Trim(value, `"`)
	image := bytes.HasPrefix(s, []byte("data:image/"))
	if bytes.HasPrefix(s, []byte("data:")) {
		_, data, found := bytes.Cut(s[:min(len(s), 128)], []byte("base64,"))
		if !found {
			return
		}
		s = s[min(len(s), 128)-len(data):]
	}
	for _, at := range []int{0, len(s)/2 - 32, len(s) - 64} {
		if !base64Only(s[max(0, at):min(len(s), at+64)]) {
			return
		}
	}
	e.bytes += int64(len(value))
	for _, start := range imageStarts {
		image = image || bytes.HasPrefix(s, []byte(start))
	}
	if image {
		e.images++
	} else {
		e.tokens += int64(len(value) / bytesPerBlobToken)
	}
}

// base64Only is true for what may be base64 in JSON: either alphabet, a slash
// written with a backslash, lines with their breaks.
func base64Only(b []byte) bool {
	for _, c := range b {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9') && !strings.ContainsRune(`+/-_=\`, rune(c)) {
			return false
		}
	}
	return true
}

// formValue is a field of a form in several parts, empty where it has none.
func formValue(body []byte, name string) string {
	_, rest, found := bytes.Cut(body, []byte(`name="`+name+`"`))
	if !found {
		return ""
	}
	_, rest, found = bytes.Cut(rest[:min(len(rest), 512)], []byte("\r\n\r\n"))
	value, _, ended := bytes.Cut(rest, []byte("\r\n"))
	if !found || !ended {
		return ""
	}
	return strings.ToValidUTF8(string(value), "")
}

// modelPaths are the parts of a path behind which some APIs name the model, and
// whether the name ends with the next slash.
var modelPaths = []struct {
	part    string
	segment bool
}{
	{"/deployments/", true}, // Azure
	{"/model/", true},       // Bedrock
	{"/ai/run/", false},     // Cloudflare
	{"/models/", false},     // Google, Hugging Face
	{"/endpoints/", true},   // Vertex AI, a model of one's own
}

// fromPath reads what some APIs put into the path: the model, and the way of
// answering.
func fromPath(u *url.URL) (model string, stream bool) {
	path := strings.TrimRight(u.EscapedPath(), "/")
	for _, p := range modelPaths {
		_, rest, found := strings.Cut(path, p.part)
		if !found {
			continue
		}
		if p.segment {
			rest, _, _ = strings.Cut(rest, "/")
		}
		model, err := url.PathUnescape(rest)
		if err != nil {
			return "", false
		}
		verb := path[strings.LastIndexAny(path, "/:")+1:]
		if p.part != "/model/" { // whose names have colons
			model, _, _ = strings.Cut(model, ":")
		}
		model, _, _ = strings.Cut(model, "/v1/")
		return model, strings.HasPrefix(verb, "stream") || strings.HasSuffix(verb, "-stream")
	}
	return "", false
}
