-- KEYS: a permit's record, then buckets. ARGV: what the call has cost so far in
-- each of these.
local raw = get(KEYS[1])
if not raw then return end

-- takeoff takes a cost off what was counted from an instant on. What that was
-- may be part of younger entries by now, and what others have counted before the
-- last of it goes first: so nothing leaves earlier than it would have.
local function takeoff(w, from, cost)
  if w.used == 0 then return end
  local parts, at = {}, w.from
  for i = 1, w.live do
    local t, c
    t, c, at = read('<dd', w.log, at)
    if t >= from then
      local less = min(cost, c)
      c, cost, w.used = c - less, cost - less, w.used - less
    end
    parts[i] = pack('<dd', t, c)
  end
  if w.last >= from then
    local less = min(cost, w.cost)
    w.cost, w.used = w.cost - less, w.used - less
  end
  w.log, w.from = concat(parts), 1
  if w.used == 0 then
    w.live, w.last, w.first, w.cost, w.coarse = 0, 0, FOREVER, 0, 0
  end
end

-- lacks is how much more a total is than what counts.
local function lacks(c, total)
  return min(total, c.calls) - c.first - c.later
end

local function settle(share, key, total)
  local b = decode(get(key))
  for _, c in ipairs(share) do -- what was empty has been forgotten
    if c.per > 0 and lacks(c, total) > 0 and not seek(b, c.per) then add(b, c.per) end
  end
  for _, w in ipairs(b.windows) do
    expire(w, b.now)
    local c = share[#share]
    for _, other in ipairs(share) do
      if other.per == w.per then c = other end
    end
    local more = lacks(c, total)
    if more > 0 then
      book(w, b.now, min(more, FOREVER - w.used))
    else
      local first = min(-more, c.first)
      local later = -more - first
      if first > 0 and share.granted > b.now - w.per then takeoff(w, share.granted, first) end
      if later > 0 and share.since > b.now - w.per then takeoff(w, share.since, later) end
    end
  end
  for _, c in ipairs(share) do
    local more = lacks(c, total)
    if more > 0 then
      c.later = c.later + more
      if share.since == 0 then share.since = b.now end
    else
      local first = min(-more, c.first)
      c.first, c.later = c.first - first, c.later + more + first
    end
  end
  save(key, b)
end

-- shares reads a record. One that cannot be read settles nothing.
local function shares()
  local all, at = {}, 1
  while at <= #raw do
    local share, n = {}, nil
    share.name, share.granted, share.since, n, at = read('<c22ddI2', raw, at)
    if n == 0 or not (share.granted >= 0 and share.since >= 0) then error('no share') end
    for i = 1, n do
      local c = {}
      c.per, c.calls, c.first, c.later, at = read('<dddd', raw, at)
      if not (c.per >= 0 and c.per <= FOREVER and c.calls >= 0 and c.calls <= FOREVER and c.first >= 0 and c.later >= 0) then
        error('no tally')
      end
      share[i] = c
    end
    all[#all + 1] = share
  end
  return all
end

local sound, all = pcall(shares)
if not sound then
  redis.call('DEL', KEYS[1])
  return
end
local parts = {}
for _, share in ipairs(all) do
  for i = 2, #KEYS do
    if sub(KEYS[i], -22) == share.name then settle(share, KEYS[i], tonumber(ARGV[i - 1])) end
  end
  parts[#parts + 1] = pack('<c22ddI2', share.name, share.granted, share.since, #share)
  for _, c in ipairs(share) do parts[#parts + 1] = pack('<dddd', c.per, c.calls, c.first, c.later) end
end
redis.call('SET', KEYS[1], concat(parts), 'KEEPTTL')
