-- KEYS: buckets. ARGV: how long ago the call was granted; for each limit its
-- bucket, its span and the cost.
local age, list = tonumber(ARGV[1]), ARGV[2]

-- insert counts a grant of an instant that others may have followed.
local function insert(w, t, cost)
  if w.used == 0 or t >= w.last then
    book(w, t, cost)
    return
  end
  local parts, at, done = {}, w.from, false
  for i = 1, w.live do
    local et, ec
    et, ec, at = read('<dd', w.log, at)
    if not done and et >= t then
      done = true
      if et == t or w.live == MOST then
        ec = ec + cost
      else
        parts[#parts + 1] = pack('<dd', t, cost)
      end
    end
    parts[#parts + 1] = pack('<dd', et, ec)
  end
  if not done then
    if w.live == MOST then
      w.cost = w.cost + cost
    else
      parts[#parts + 1] = pack('<dd', t, cost)
    end
  end
  w.log, w.from, w.live, w.used = concat(parts), 1, #parts, w.used + cost
  w.first = w.live > 0 and read('<d', w.log) or w.last
end

local buckets, most, named = {}, {}, {}
for at = 1, #list, 18 do
  local key, per, cost = read('<I2dd', list, at)
  local b = buckets[key]
  if not b then
    b = decode(get(KEYS[key]))
    buckets[key], most[key] = b, 0
  end
  local w = seek(b, per) or add(b, per)
  w.asked = b.now
  expire(w, b.now)
  named[w] = true
  if age < per then insert(w, b.now - age, cost) end
  if cost > most[key] then most[key] = cost end
end
for key, b in pairs(buckets) do
  for _, w in ipairs(b.windows) do
    if not named[w] then
      expire(w, b.now)
      if age < w.per then insert(w, b.now - age, min(most[key], FOREVER - w.used)) end
    end
  end
  save(KEYS[key], b)
end
