-- KEYS: buckets in which permits hold places, then records of permits.
-- ARGV: how many buckets; the hold; for each place its bucket and its permit's
-- name.
local buckets, hold, list = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local known = {}
for at = 1, #list, 14 do
  local key, name = read('<I2c12', list, at)
  local b = known[key]
  if not b then
    b = decode(get(KEYS[key]))
    lapse(b)
    known[key] = b
  end
  local place = find(b, name)
  if place then
    local ends = min(b.now + hold, FOREVER)
    b.places = sub(b.places, 1, place + 11) .. pack('<d', ends) .. sub(b.places, place + 20)
    b.bound, b.latest = min(b.bound, ends), max(b.latest, ends)
    b.changed = true
  end
end
for key, b in pairs(known) do
  if b.changed then save(KEYS[key], b) end
end
for i = buckets + 1, #KEYS do redis.call('PEXPIRE', KEYS[i], ceil(hold / 1000)) end
