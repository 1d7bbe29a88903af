-- KEYS: buckets that a permit holds places of, then its record if it has one.
-- ARGV: how many buckets; the permit's name.
local buckets = tonumber(ARGV[1])
for i = 1, buckets do
  local raw = get(KEYS[i])
  if raw then
    local b = decode(raw)
    local at = find(b, ARGV[2])
    if at then
      b.places, b.held = sub(b.places, 1, at - 1) .. sub(b.places, at + 20), b.held - 1
      if b.held == 0 then b.bound, b.latest = FOREVER, 0 end
      save(KEYS[i], b)
    end
  end
end
if KEYS[buckets + 1] then redis.call('DEL', KEYS[buckets + 1]) end
