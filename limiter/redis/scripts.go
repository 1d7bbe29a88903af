package redis

import (
	_ "embed"
	"strings"

	"github.com/redis/rueidis"
)

// What scripts share comes before them. They are sent once and called by their
// hash from then on, and sent again wherever a server does not know it.
var (
	//go:embed lua/bucket.lua
	bucketLua string
	//go:embed lua/places.lua
	placesLua string
	//go:embed lua/throttles.lua
	throttlesLua string
	//go:embed lua/acquire.lua
	acquireLua string
	//go:embed lua/release.lua
	releaseLua string
	//go:embed lua/renew.lua
	renewLua string
	//go:embed lua/settle.lua
	settleLua string
	//go:embed lua/throttle.lua
	throttleLua string
	//go:embed lua/peek.lua
	peekLua string
	//go:embed lua/seed.lua
	seedLua string
	//go:embed lua/epoch.lua
	epochLua string
	//go:embed lua/swap.lua
	swapLua string
)

// scripts are what a limiter calls.
type scripts struct {
	acquire, release, renew, settle, throttle, open, peek, seed, epoch, get, swap *rueidis.Lua
}

var standard = newScripts(bucketLua)

// newScripts puts scripts together around what they know of buckets.
func newScripts(bucket string) *scripts {
	script := func(parts ...string) *rueidis.Lua { return rueidis.NewLuaScript(bucket + strings.Join(parts, "")) }
	return &scripts{
		acquire:  script(placesLua, throttlesLua, acquireLua),
		release:  script(placesLua, releaseLua),
		renew:    script(placesLua, renewLua),
		settle:   script(settleLua),
		throttle: script(throttlesLua, throttleLua),
		open:     rueidis.NewLuaScript("redis.call('DEL', KEYS[1])"),
		peek:     script(placesLua, throttlesLua, peekLua),
		seed:     script(seedLua),
		epoch:    script(epochLua),
		get:      script("return {get(KEYS[1])}"),
		swap:     script(swapLua),
	}
}
