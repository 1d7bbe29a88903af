package dialect

import (
	"slices"
	"strings"
	"time"
)

// The IETF fields: RateLimit says what is left of a policy, RateLimit-Policy
// what the policy is. They are joined by the policy's name and its partition.

// An ietfItem is one member of either field.
type ietfItem struct {
	name   string
	params map[string]string // values as written, strings unquoted
}

func (i ietfItem) key() string { return i.name + "\x00" + i.params["pk"] }

// number is a parameter's value; said is false where it is missing, ok where
// it is present and no number.
func (i ietfItem) number(param string) (n int64, said, ok bool) {
	s, found := i.params[param]
	if !found {
		return 0, false, true
	}
	if !digits(s) || len(s) > 15 {
		return 0, false, false
	}
	return parseCount(s).n, true, true
}

// ietfBuckets reads both fields. A malformed field is ignored whole, and a
// cached answer's numbers were true some time ago for somebody else. concurrent
// is true where an empty policy counts requests that run at once.
func ietfBuckets(a *answer) (out []bucket, concurrent bool) {
	if age := a.fields.get("age"); digits(age) && strings.Trim(age, "0") != "" {
		return nil, false
	}
	left := ietfField(a.fields["ratelimit"], "r")
	policies := ietfField(a.fields["ratelimit-policy"], "q")
	if left == nil && policies == nil {
		return nil, false
	}
	left, policies = joinUnnamed(left, policies)
	for _, item := range left {
		var policy ietfItem
		if i := slices.IndexFunc(policies, func(p ietfItem) bool { return p.key() == item.key() }); i >= 0 {
			policy = policies[i]
			policies = slices.Delete(slices.Clone(policies), i, i+1)
		}
		b, kind := ietfBucket(a, item, policy)
		switch {
		case kind == "concurrent-requests":
			concurrent = concurrent || b.remaining.said && b.remaining.n == 0
		case b.Unit != "":
			out = append(out, b)
		}
	}
	for _, policy := range policies {
		if b, _ := ietfBucket(a, ietfItem{name: policy.name, params: policy.params}, policy); b.Unit != "" {
			out = append(out, b)
		}
	}
	return out, concurrent
}

// ietfBucket joins an item with its policy. Its Unit is empty where the policy
// counts something else than requests or tokens, which kind then names.
func ietfBucket(a *answer, item, policy ietfItem) (b bucket, kind string) {
	kind = policy.params["qu"]
	switch kind {
	case "", "requests":
		b.Unit = Requests
	case "tokens":
		b.Unit = Tokens
	}
	b.Window, b.standard = Unknown, true
	if w, said, _ := policy.number("w"); said {
		if s := seconds(w); s.name != "" {
			b.Window, b.long = s.name, s.long
		}
	}
	b.Scope = item.name
	if pk := item.params["pk"]; pk != "" {
		b.Scope += " " + pk
	}
	q, said, _ := policy.number("q")
	b.limit = count{n: q, said: said}
	r, said, _ := item.number("r")
	b.remaining = count{n: r, said: said}
	if t, said, _ := item.number("t"); said {
		if d, ok := believable(time.Duration(min(t, 1<<33)) * time.Second); ok {
			b.reset, b.resetSaid, b.relative = d, true, true
		}
	}
	return b, kind
}

// ietfField parses all lines of one field. required is the parameter every
// item must have; where one item is malformed the whole field is nil.
func ietfField(lines []string, required string) []ietfItem {
	line := strings.Join(lines, ",")
	if line == "" || len(line) > maxListLine {
		return nil
	}
	if item, ok := ietfDictionary(line); ok {
		return []ietfItem{item}
	}
	var items []ietfItem
	for _, member := range splitOutside(line, ',') {
		item, ok := ietfMember(member, required)
		if !ok {
			return nil
		}
		items = append(items, item)
	}
	return items
}

// ietfMember parses `"name";q=100;w=60`. Two names in one item are no
// structured field, but one large hub sends them: the last is the one its
// other field uses. Drafts 03 to 07 begin with the quota in place of a name.
func ietfMember(member, required string) (ietfItem, bool) {
	item := ietfItem{params: make(map[string]string)}
	for i, p := range splitOutside(member, ';') {
		p = strings.TrimSpace(p)
		name, value, isParam := strings.Cut(p, "=")
		switch {
		case strings.HasPrefix(p, `"`):
			if len(p) < 2 || !strings.HasSuffix(p, `"`) {
				return item, false
			}
			item.name = strings.ReplaceAll(p[1:len(p)-1], `\`, "")
		case i == 0 && digits(p) && required == "q":
			item.params["q"] = p
		case i == 0 && !isParam && p != "":
			item.name = p
		case p == "" || name == "":
			return item, false
		case !isParam:
			// A parameter without a value is a boolean, none of ours.
		default:
			item.params[strings.ToLower(name)] = strings.Trim(value, `"`)
		}
	}
	for _, param := range []string{"q", "w", "r", "t"} {
		if _, _, ok := item.number(param); !ok {
			return item, false
		}
	}
	_, said, _ := item.number(required)
	return item, said
}

// ietfDictionary parses draft 07's `limit=100, remaining=50, reset=5`.
func ietfDictionary(line string) (ietfItem, bool) {
	item := ietfItem{params: make(map[string]string)}
	for pair := range strings.SplitSeq(line, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		param, known := map[string]string{"limit": "q", "remaining": "r", "reset": "t"}[name]
		if !known || !digits(value) {
			return item, false
		}
		item.params[param] = value
	}
	_, said, ok := item.number("r")
	return item, said && ok
}

// joinUnnamed gives the only unnamed item and the only unnamed policy of the
// drafts before names to each other, and an item's own quota a policy.
func joinUnnamed(left, policies []ietfItem) (l, p []ietfItem) {
	if len(left) != 1 || left[0].name != "" {
		return left, policies
	}
	q, said := left[0].params["q"]
	for _, policy := range policies {
		if policy.name == "" && (!said || policy.params["q"] == q) {
			return left, []ietfItem{policy}
		}
	}
	if said {
		return left, []ietfItem{{params: map[string]string{"q": q}}}
	}
	return left, policies
}

// splitOutside splits at a separator that is not inside a quoted string.
func splitOutside(s string, separator byte) []string {
	var out []string
	quoted := false
	from := 0
	for i := 0; i < len(s); i++ {
		switch {
		case quoted && s[i] == '\\':
			i++
		case s[i] == '"':
			quoted = !quoted
		case s[i] == separator && !quoted:
			out = append(out, s[from:i])
			from = i + 1
		}
	}
	return append(out, s[from:])
}
