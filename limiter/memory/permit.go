package memory

// A permit is 96 bits, written with six in a character: who issued it, the
// generation of its first place, and where that place is. A shard would need
// 4 GiB of places before an index did not fit.
const (
	nonceBits      = 24
	generationBits = 40
	shardBits      = 6
	indexBits      = 26

	permitLength = (nonceBits + generationBits + shardBits + indexBits) / 6
)

const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

var values = func() (v [256]int8) {
	for i := range v {
		v[i] = -1
	}
	for i := range len(digits) {
		v[digits[i]] = int8(i)
	}
	return v
}()

// format writes a permit. Everything before this allocates nothing.
func (l *Limiter) format(id placeID) string {
	var b [permitLength]byte
	put(b[:4], l.nonce)
	// Forty bits and six and twenty-six are twelve characters.
	put(b[4:10], id.generation>>4)
	put(b[10:], id.generation&15<<32|id.shard<<indexBits|id.index)
	return string(b[:])
}

// parse reads a permit, unless it is none of ours.
func (l *Limiter) parse(permit string) (placeID, bool) {
	if len(permit) != permitLength {
		return placeID{}, false
	}
	nonce, ok1 := get(permit[:4])
	high, ok2 := get(permit[4:10])
	low, ok3 := get(permit[10:])
	if !ok1 || !ok2 || !ok3 || nonce != l.nonce {
		return placeID{}, false
	}
	return placeID{
		shard:      low >> indexBits & (shards - 1),
		index:      low & (1<<indexBits - 1),
		generation: high<<4 | low>>32,
	}, true
}

func put(b []byte, v uint64) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = digits[v&63]
		v >>= 6
	}
}

func get(s string) (v uint64, ok bool) {
	for i := range len(s) {
		d := values[s[i]]
		if d < 0 {
			return 0, false
		}
		v = v<<6 | uint64(d)
	}
	return v, true
}
