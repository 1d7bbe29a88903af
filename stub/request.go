package stub

import (
	"bytes"
	"encoding/json"
	"errors"
	"hash/maphash"
	"io"
	"net/http"
)

const (
	// keptBody is how much of a request's body is looked at.
	keptBody = 4 << 20
	// longestBody is how much is read at all, for a client that sends its
	// whole request before it listens.
	longestBody = 256 << 20
)

// maxInputs is how many texts are embedded at most, as OpenAI's API has it.
const maxInputs = 2048

var errTooLarge = errors.New("the request is larger than 256 MiB")

// An ask is what a stub wants to know of a request.
type ask struct {
	stream bool
	usage  bool // the stream is to end with what was used
	model  string
	inputs int    // texts to embed
	base64 bool   // embeddings as text
	bytes  int64  // of the body
	id     uint64 // stands for the request's identity; 0 is none
	bound  int    // on the answer, in tokens; 0 is none
	cost   usage
}

// tokens is what the request's input is said to cost.
func (a ask) tokens() int64 { return (a.bytes + 3) / 4 }

// ids is shared by all stubs: a hash means something within one process only.
var ids = maphash.MakeSeed()

// readAsk reads the whole body and keeps its beginning.
func readAsk(r *http.Request, api api, hashBody bool) (ask, error) {
	kept, err := io.ReadAll(io.LimitReader(r.Body, keptBody))
	if err != nil {
		return ask{}, err
	}
	a := ask{bytes: int64(len(kept)), inputs: 1, stream: api.streams, model: api.model}
	if len(kept) == keptBody {
		rest, err := io.Copy(io.Discard, io.LimitReader(r.Body, longestBody-keptBody+1))
		if err != nil {
			return ask{}, err
		}
		if a.bytes += rest; a.bytes > longestBody {
			return ask{}, errTooLarge
		}
	}
	a.read(kept)
	a.cost = usageOf(r.Header, a.bytes)
	// A letter in front keeps a key from being taken for a body.
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		a.id = maphash.String(ids, "k"+key)
	} else if key := r.Header.Get("X-Stub-Request"); key != "" {
		a.id = maphash.String(ids, "x"+key)
	} else if hashBody {
		a.id = maphash.Bytes(ids, kept)
	}
	return a, nil
}

// read finds the fields that matter. It goes field by field and stops at
// what it cannot read, so a body that was cut off, or is no JSON at all, gives
// what it can: a stub answers anything.
func (a *ask) read(body []byte) {
	fields := json.NewDecoder(bytes.NewReader(body))
	if open, err := fields.Token(); err != nil || open != json.Delim('{') {
		return
	}
	for fields.More() {
		name, err := fields.Token()
		if err != nil {
			return
		}
		var (
			value   any = new(json.RawMessage)
			options struct {
				Usage bool `json:"include_usage"`
			}
			bounds struct { // Gemini's and Ollama's
				Max     int `json:"maxOutputTokens"`
				Predict int `json:"num_predict"`
			}
			input  []json.RawMessage
			format string
		)
		switch name {
		case "stream":
			value = &a.stream
		case "stream_options":
			value = &options
		case "model":
			value = &a.model
		case "input":
			value = &input
		case "max_tokens", "max_completion_tokens", "max_output_tokens":
			value = &a.bound
		case "generationConfig", "options":
			value = &bounds
		case "encoding_format":
			value = &format
		}
		var wrongType *json.UnmarshalTypeError
		if err := fields.Decode(value); err != nil && !errors.As(err, &wrongType) {
			return
		}
		a.bound = min(max(0, a.bound, bounds.Max, bounds.Predict), 1<<30)
		a.usage = a.usage || options.Usage
		a.base64 = a.base64 || format == "base64"
		// Tokens are one text.
		if len(input) > 0 && (input[0][0] == '"' || input[0][0] == '[') {
			a.inputs = min(len(input), maxInputs)
		}
	}
}
