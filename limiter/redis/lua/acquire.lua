-- KEYS: the epoch, callers' throttles, buckets, and a record for each permit
-- that can be settled.
-- ARGV: the epoch as its asker knows it; the requests; its part of permits' names.
--
-- The requests: how many keys to read, how many runs; then each run of equal
-- requests: caller's key, how many, hold, the first of its records or 0, number of
-- the first permit, how many limits; then each of these: bucket's key, per, calls,
-- cost, concurrent, whether the cost is its own. The cost is at most calls.
--
-- The answer: the clock; then for each run how many were granted and how many
-- limits stand in the way of the rest (65535: those of the same caller's run
-- before); then each of these: its number, from 1, or 0 for the throttle;
-- whether it lacks places; in how long it has room. Where the epoch is another,
-- nothing is counted and the answer is a list of it.
local request = ARGV[2]
local keys, runs, at = read('<I2I2', request)
local values = redis.call('MGET', unpack(KEYS, 1, keys))
if values[1] ~= ARGV[1] then return {values[1]} end
local epochmark = read('<d', values[1], 33)

-- unknown is for how long a window counts as full for what may have been lost.
local function unknown(b, per)
  local mark = b.mark
  if epochmark > mark then mark = epochmark end
  if mark == 0 then return 0 end
  local span = per < FULL and per or FULL
  local left = mark + span - clock
  return left < span and left or span
end

-- prune drops windows that nobody has asked for in twice their span: no instant
-- that was named lies ahead, and all that they hold is in the longest.
local function prune(b, longest)
  local kept = {}
  for _, w in ipairs(b.windows) do
    if w.per == longest or b.now - w.asked <= 2 * w.per then kept[#kept + 1] = w end
  end
  b.windows = kept
end

-- grant counts n calls in all their windows. Those windows of a bucket that no
-- limit names are views of the same history: there a call counts as the most it
-- counts in any that is named. Who asks for places only counts in none.
local function grant(asks, n, run)
  for i = 1, #asks do
    local a = asks[i]
    local b = a.b
    b.changed = true
    if a.w then
      book(a.w, b.now, a.cost * n)
      if not b.booked or b.booked < a.cost then b.booked = a.cost end
    end
  end
  for i = 1, #asks do
    local b = asks[i].b
    if b.booked then
      local windows, longest, stale = b.windows, 0, false
      for k = 1, #windows do
        local w = windows[k]
        if w.per > longest then longest = w.per end
        if w.run ~= run then
          expire(w, b.now)
          book(w, b.now, min(b.booked * n, FOREVER - w.used))
          stale = stale or b.now - w.asked > 2 * w.per
        end
      end
      b.booked = false
      if stale then prune(b, longest) end
    end
  end
end

-- take gives n permits their places in a bucket.
local function take(b, n, number, hold, run)
  local ends = min(b.now + hold, FOREVER)
  local parts = {b.places}
  for i = 1, n do parts[1 + i] = ARGV[3] .. pack('<I4d', number + i - 1, ends) end
  b.places, b.held, b.placed = concat(parts), b.held + n, run
  if ends < b.bound then b.bound = ends end
  if ends > b.latest then b.latest = ends end
end

-- shares is what a call counts in buckets that it names with a cost of a limit's
-- own, so that it can be settled: for each, its name, when it was granted, since
-- when it costs more (0: never did), how many windows; for each of these per,
-- calls, what it counts since the grant, and what since it was settled. The last,
-- of span 0, is for windows that the call has not named.
local function shares(asks)
  local parts, seen = {}, {}
  for i = 1, #asks do
    local a = asks[i]
    if a.own > 0 and not seen[a.b] then
      seen[a.b] = true
      local n, calls, cost, windows = 0, 0, 0, {}
      for k = 1, #asks do
        local o = asks[k]
        if o.b == a.b and o.w then
          n = n + 1
          windows[n] = pack('<dddd', o.per, o.calls, o.cost, 0)
          if o.calls > calls then calls = o.calls end
          if o.cost > cost then cost = o.cost end
        end
      end
      parts[#parts + 1] = pack('<c22ddI2', sub(KEYS[a.key], -22), a.b.now, 0, n + 1) .. concat(windows)
        .. pack('<dddd', 0, calls, cost, 0)
    end
  end
  return concat(parts)
end

local buckets = {}
local refused = {}
local answer = pack('<d', clock)

for run = 1, runs do
  local caller, count, hold, record, number, limits
  caller, count, hold, record, number, limits, at = read('<I2I4dI2I4I2', request, at)
  local asks, fit = {}, count

  if refused[caller] then
    fit = 0
    at = at + limits * 35
    answer = answer .. pack('<I4I2', 0, 65535)
  else
    local shut = closed(KEYS[caller], values[caller])
    if shut > 0 then fit = 0 end

    -- Look at every limit: how many of the run have room.
    for i = 1, limits do
      local key, per, calls, cost, places, own
      key, per, calls, cost, places, own, at = read('<I2ddddB', request, at)
      local b = buckets[key]
      if not b then
        b = decode(values[key])
        buckets[key] = b
      end
      local w
      if calls > 0 then
        w = seek(b, per)
        if w then
          expire(w, b.now)
        else
          w = add(b, per)
          if w.used > 0 then b.changed = true end
        end
        -- Who is refused is told an instant within the span, and the window must
        -- not be dropped until then: it is kept for twice its span.
        if w.asked < b.now - per then b.changed = true end
        w.asked, w.run = b.now, run
        local room = floor((calls - w.used) / cost)
        if unknown(b, per) > 0 then room = 0 end
        if room < fit then fit = room end
      end
      if places > 0 then
        lapse(b)
        if places - b.held < fit then fit = places - b.held end
      end
      asks[i] = {b = b, w = w, key = key, per = per, calls = calls, cost = cost, places = places, own = own}
    end
    if fit < 0 then fit = 0 end

    if fit > 0 then
      grant(asks, fit, run)
      for i = 1, limits do
        local a = asks[i]
        if a.places > 0 and a.b.placed ~= run then take(a.b, fit, number, hold, run) end
      end
      if record > 0 then
        local text, lasts = shares(asks), ceil(hold / 1000)
        for i = keys + record, keys + record + fit - 1 do redis.call('SET', KEYS[i], text, 'PX', lasts) end
      end
    end

    -- Why the rest was not granted.
    local why, parts = 0, {}
    if fit < count then
      refused[caller] = true
      if shut > 0 then
        why, parts[1] = 1, pack('<I2Bd', 0, 0, shut)
      end
      for i = 1, #asks do
        local a = asks[i]
        local b, left, places = a.b, 0, 0
        if a.w then
          left = unknown(b, a.per)
          if a.w.used + a.cost > a.calls then left = max(left, full(a.w, a.calls, a.cost) - b.now) end
        end
        if a.places > 0 and b.held >= a.places then
          -- Somebody may release one sooner than it lapses, and nobody is told.
          local soon = min(b.bound - b.now, 1e5)
          if soon > left then left, places = soon, 1 end
        end
        if left > 0 then
          why = why + 1
          parts[why] = pack('<I2Bd', i, places, left)
        end
      end
    end
    answer = answer .. pack('<I4I2', fit, why) .. concat(parts)
  end
end

for key, b in pairs(buckets) do
  if b.changed then save(KEYS[key], b) end
end
return answer
