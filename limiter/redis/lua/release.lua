-- KEYS: buckets in which permits hold places, then records of permits.
-- ARGV: how many buckets; for each place its bucket and its permit's name.
local buckets, list = tonumber(ARGV[1]), ARGV[2]
local known = {}
for at = 1, #list, 14 do
  local key, name = read('<I2c12', list, at)
  local b = known[key]
  if not b then
    b = decode(get(KEYS[key]))
    known[key] = b
  end
  local place = find(b, name)
  if place then
    b.places, b.held, b.changed = sub(b.places, 1, place - 1) .. sub(b.places, place + 20), b.held - 1, true
    if b.held == 0 then b.bound, b.latest = FOREVER, 0 end
  end
end
for key, b in pairs(known) do
  if b.changed then save(KEYS[key], b) end
end
for i = buckets + 1, #KEYS do redis.call('DEL', KEYS[i]) end
