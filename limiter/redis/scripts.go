package redis

import (
	_ "embed"

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

var (
	acquireScript  = rueidis.NewLuaScript(bucketLua + placesLua + throttlesLua + acquireLua)
	releaseScript  = rueidis.NewLuaScript(bucketLua + placesLua + releaseLua)
	renewScript    = rueidis.NewLuaScript(bucketLua + placesLua + renewLua)
	settleScript   = rueidis.NewLuaScript(bucketLua + settleLua)
	throttleScript = rueidis.NewLuaScript(bucketLua + throttlesLua + throttleLua)
	peekScript     = rueidis.NewLuaScript(bucketLua + placesLua + throttlesLua + peekLua)
	seedScript     = rueidis.NewLuaScript(bucketLua + seedLua)
	epochScript    = rueidis.NewLuaScript(bucketLua + epochLua)
	swapScript     = rueidis.NewLuaScript(swapLua)

	openScript = rueidis.NewLuaScript(`redis.call('DEL', KEYS[1])`)
	getScript  = rueidis.NewLuaScript(`return {redis.call('GET', KEYS[1])}`)
)
