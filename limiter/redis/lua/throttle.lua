-- KEYS: a caller's throttle. ARGV: for how many microseconds.
local raw = get(KEYS[1])
local left = tonumber(ARGV[1])
if closed(KEYS[1], raw) < left then
  redis.call('SET', KEYS[1], pack(THROTTLE, VERSION, 0, clock, min(clock + left, FOREVER)), 'PX', ceil(left / 1000) + 1)
end
