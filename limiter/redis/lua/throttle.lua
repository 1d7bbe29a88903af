-- KEYS: a caller's throttle. ARGV: for how many microseconds.
local raw = redis.call('GET', KEYS[1])
local offset, now, ends = 0, clock, 0
if raw and #raw == 24 then
  local last
  offset, last, ends = read('<ddd', raw)
  now = clock + offset
  if now < last then offset, now = last - clock, last end
  if not (offset >= 0 and now < FOREVER and ends <= FOREVER) then offset, now, ends = 0, clock, 0 end
end
ends = math.max(ends, math.min(now + tonumber(ARGV[1]), FOREVER))
redis.call('SET', KEYS[1], pack('<ddd', offset, now, ends), 'PX', math.ceil((ends - now) / 1000) + 1)
