-- KEYS: the epoch, a caller's throttle, buckets.
-- ARGV: for each limit its bucket and its span.
-- The answer: the clock; for how long the caller's key is closed; for each limit
-- what is used, how many places are held, and whether it counts as full.
local values = redis.call('MGET', unpack(KEYS))
local parts = {pack('<d', clock)}
parts[2] = pack('<d', closed(KEYS[2], values[2]))
local list = ARGV[1]
for at = 1, #list, 10 do
  local key, per = read('<I2d', list, at)
  local b = decode(values[key])
  local used, full = 0, 0
  if per > 0 then
    used = view(b, per).used
    local mark = b.mark
    if values[1] and #values[1] >= 40 then mark = max(mark, (read('<d', values[1], 33))) end
    if mark > 0 and clock < mark + min(per, FULL) then full = 1 end
  end
  lapse(b)
  parts[#parts + 1] = pack('<ddB', used, b.held, full)
end
return concat(parts)
