package slothttp

import "encoding/json"

// Read reads a text with the readers of this package, as encoding/json would
// into an any, but that fields that are null are left out.
func Read(text string) (any, bool) {
	v := parse([]byte(text))
	if v == nil {
		return nil, false
	}
	return v.any(), true
}

func (v value) any() any {
	switch {
	case v.is('{'):
		o := map[string]any{}
		for name, v := range v.fields() {
			o[string(name)] = v.any()
		}
		return o
	case v.is('['):
		l := []any{}
		for i, v := range v.items() {
			if i != len(l) {
				panic("items are not numbered")
			}
			l = append(l, v.any())
		}
		return l
	case v.is('"'):
		return v.text()
	case v.is('n'):
		return nil
	case v.is('t'), v.is('f'):
		return v.is('t')
	}
	return json.Number(v)
}
