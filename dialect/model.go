package dialect

import "encoding/json"

// SetModel returns a copy of a request's JSON with another model, every other
// byte as it was. It reports false where the document has no model to replace,
// as far as it goes: it may be cut.
func SetModel(doc []byte, model string) ([]byte, bool) {
	name, err := json.Marshal(model)
	if err != nil {
		return doc, false
	}
	var out []byte
	from := 0
	for key, value := range topLevel(doc) {
		if key != "model" {
			continue
		}
		// value is a part of doc, so their capacities tell where it begins.
		at := cap(doc) - cap(value)
		out = append(append(out, doc[from:at]...), name...)
		from = at + len(value)
	}
	if from == 0 {
		return doc, false
	}
	return append(out, doc[from:]...), true
}
