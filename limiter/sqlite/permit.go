package sqlite

import (
	"strconv"
	"strings"
)

// A permit is its number, drawn by chance, and the rows of the buckets it holds
// something of: "9f86d081884c7d65.4.12". So nothing has to be stored about it but
// in those buckets.
type permit struct {
	number  uint64
	buckets []int64
}

const permitBase = 36

func (p permit) String() string {
	text := strconv.FormatUint(p.number, permitBase)
	for _, id := range p.buckets {
		text += "." + strconv.FormatInt(id, permitBase)
	}
	return text
}

// parsePermit reads what String wrote; anything else is no permit.
func parsePermit(text string) (p permit, ok bool) {
	number, rest, ok := strings.Cut(text, ".")
	if !ok {
		return p, false
	}
	var err error
	if p.number, err = strconv.ParseUint(number, permitBase, 64); err != nil {
		return p, false
	}
	for id := range strings.SplitSeq(rest, ".") {
		n, err := strconv.ParseInt(id, permitBase, 64)
		if err != nil {
			return p, false
		}
		p.buckets = append(p.buckets, n)
	}
	return p, p.String() == text
}

// holders are the buckets that a permit holds something of: all it names, or
// none.
func (v *visit) holders(p permit) ([]*bucket, error) {
	var buckets []*bucket
	for _, id := range p.buckets {
		b, err := v.stored(id)
		if b == nil || err != nil || b.find(p.number) == nil {
			return nil, err
		}
		buckets = append(buckets, b)
	}
	return buckets, nil
}
