package stub

import (
	"encoding/base64"
	"encoding/binary"
	"math"
)

// embeddings is OpenAI's API for them. A vector says which generation it is
// of and which of its texts it stands for.
var embeddings = api{
	requestID: openAI.requestID,
	failure:   openAI.failure,
	whole: func(r reply) any {
		data := make([]any, r.ask.inputs)
		for i := range data {
			data[i] = fields{"object": "embedding", "index": i, "embedding": vector(r, i)}
		}
		return fields{
			"object": "list", "model": r.model, "data": data,
			"usage": fields{"prompt_tokens": r.ask.cost.input, "total_tokens": r.ask.cost.input},
		}
	},
}

// vector is an embedding in the form that was asked for: numbers, or their
// bytes as base64.
func vector(r reply, text int) any {
	numbers := []float32{float32(r.generation), float32(text), 0.5, -0.25}
	if !r.ask.base64 {
		return numbers
	}
	var bytes []byte
	for _, n := range numbers {
		bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(n))
	}
	return base64.StdEncoding.EncodeToString(bytes)
}
