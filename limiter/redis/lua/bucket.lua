-- A bucket is one string: its clock, the places that permits hold, and a
-- window for each span it has been asked with, oldest entry first. Instants and
-- spans are in microseconds; a double holds them exactly for two centuries.
--
--   head     version, offset, last, mark, bound, latest, places, windows
--   places   20 bytes each: 12 of the permit's name, when it lapses
--   windows  50 bytes each: per, asked, used, first, last, cost, coarse, entries
--   entries  16 bytes each, of one window after the other: instant, cost
--
-- The youngest entry of a window stands in its head, so that most grants of a
-- busy one write there and nowhere else. What need not be looked at stays bytes.

local pack, read, sub, concat = struct.pack, struct.unpack, string.sub, table.concat
local min, max, floor, ceil = math.min, math.max, math.floor, math.ceil
local HEAD, HEADSIZE = '<BdddddI4I2', 47
local WINDOW, WINDOWSIZE = '<ddddddBB', 50
local VERSION = 1
local MOST = 64            -- entries of a window besides the youngest
local SPANS = 16           -- windows of a bucket, besides those of one request
local FOREVER = 2^53 - 1   -- no instant is later
local FULL = 120e6         -- for so long what is not known counts as full

local time = redis.call('TIME')
local clock = time[1] * 1e6 + time[2]

-- get is what a key holds. A value of another type is none of ours and goes.
local function get(key)
  local raw = redis.pcall('GET', key)
  if type(raw) ~= 'table' then return raw end
  redis.call('DEL', key)
  return ''
end

-- decode reads a bucket and what time it is there. Each bucket has a clock of
-- its own, which goes on where the server's has stepped back: an offset is added
-- as soon as that shows. A value that cannot be a bucket is one of which nothing
-- is known but that it was: it begins anew, and full.
local decode
function decode(raw)
  local b = {now = clock, offset = 0, mark = 0, windows = {}, places = '', held = 0, bound = FOREVER, latest = 0,
    changed = false, booked = false, placed = false}
  if not raw then return b end
  local size = #raw
  local sound = size >= HEADSIZE and raw:byte() == VERSION
  if sound then
    local _, offset, last, mark, bound, latest, held, count, at = read(HEAD, raw)
    local now = clock + offset
    local behind = now < last
    if behind then offset, now = offset + last - now, last end
    local from = at + held * 20 + count * WINDOWSIZE
    sound = offset >= 0 and now < FOREVER and mark >= 0 and bound >= 0 and latest <= FOREVER and from <= size + 1
    if sound then
      b.offset, b.now, b.bound, b.latest, b.held, b.changed = offset, now, bound, latest, held, behind
      if mark > clock then -- the server's clock has stepped back since
        mark, b.changed = clock, true
      end
      b.mark = mark
      if held > 0 then
        b.places = sub(raw, at, at + held * 20 - 1)
        at = at + held * 20
      end
      local longest, youngest = 0, 0
      for i = 1, count do
        local per, asked, used, first, last, cost, coarse, live
        per, asked, used, first, last, cost, coarse, live, at = read(WINDOW, raw, at)
        sound = sound and per > 0 and asked <= now and used >= 0 and used <= FOREVER and live <= MOST
          and cost >= 0 and (used == 0 or first <= last)
        if per > longest then longest = per end
        if last > youngest then youngest = last end
        b.windows[i] = {per = per, asked = asked, used = used, first = first, last = last, cost = cost,
          coarse = coarse, live = live, log = raw, from = from}
        from = from + live * 16
      end
      sound = sound and from == size + 1 and longest <= FOREVER and youngest <= now + longest / MOST + 1
    end
  end
  if sound then return b end
  b = decode(nil)
  b.mark, b.changed = clock, true
  return b
end

-- save writes a bucket, to be forgotten when nothing in it counts any more.
local function save(key, b)
  local ends, heads, logs = b.latest, '', ''
  local windows = b.windows
  for i = 1, #windows do
    local w = windows[i]
    if w.used > 0 and w.last + w.per > ends then ends = w.last + w.per end
    heads = heads .. pack(WINDOW, w.per, w.asked, w.used, w.first, w.last, w.cost, w.coarse, w.live)
    local size = w.live * 16
    if size > 0 then
      if size == #w.log then
        logs = logs .. w.log
      else
        logs = logs .. sub(w.log, w.from, w.from + size - 1)
      end
    end
  end
  local left = ends - b.now
  if b.mark > 0 and b.mark + FULL - clock > left then left = b.mark + FULL - clock end
  if left <= 0 then
    redis.call('DEL', key)
    return
  end
  local head = pack(HEAD, VERSION, b.offset, b.now, b.mark, b.bound, b.latest, b.held, #windows)
  redis.call('SET', key, head .. b.places .. heads .. logs, 'PX', ceil(left / 1000) + 1)
end

-- expire lets go of what has been in a window for its whole span.
local function expire(w, now)
  local edge = now - w.per
  if w.first > edge then return end
  local log, at, live, used = w.log, w.from, w.live, w.used
  local first = FOREVER
  while live > 0 do
    local t, cost, next = read('<dd', log, at)
    if t > edge then
      first = t
      break
    end
    at, live, used = next, live - 1, used - cost
  end
  if live == 0 then
    if w.last > edge then
      first, used = w.last, w.cost
    else
      w.last, w.cost, used = 0, 0, 0
    end
  end
  if not (used >= 0 and used <= FOREVER) then used = FOREVER end -- damaged: full until it is empty
  w.from, w.live, w.used, w.first = at, live, used, first
  if live <= MOST / 2 then w.coarse = 0 end
end

-- full is when a cost that has no room will have it, as long as nothing is
-- granted.
local function full(w, calls, cost)
  local lack = w.used + cost - calls
  local log, at = w.log, w.from
  for _ = 1, w.live do
    local t, c
    t, c, at = read('<dd', log, at)
    lack = lack - c
    if lack <= 0 then return min(w.last, max(w.first, t)) + w.per end
  end
  return w.last + w.per
end

-- quantized is the end of the quantum an instant lies in: itself where it is one.
local function quantized(w, t)
  local quantum = ceil(w.per / MOST)
  local past = math.fmod(t, quantum)
  if past > 0 then return t + quantum - past end
  return t
end

-- push adds an entry to a log that has room.
local function push(w, t, cost)
  local size = w.live * 16
  if size == #w.log then
    w.log = w.log .. pack('<dd', t, cost)
  else
    w.log = sub(w.log, w.from, w.from + size - 1) .. pack('<dd', t, cost)
  end
  w.from, w.live = 1, w.live + 1
end

-- merge makes room in a full log: entries of one quantum become one, dated at
-- its end. Ends lie in (now-per, now+quantum), which is 65 quanta at most, so
-- that as many entries always suffice.
local function merge(w)
  local log, at = w.log, w.from
  local parts, t, cost = {}, nil, 0
  for i = 1, w.live + 1 do
    local nt, nc = w.last, w.cost
    if i <= w.live then nt, nc, at = read('<dd', log, at) end
    nt = quantized(w, nt)
    if t and nt > t then
      parts[#parts + 1] = pack('<dd', t, cost)
      cost = 0
    end
    t, cost = nt, cost + nc
  end
  if #parts == MOST then -- copied from a window of another span: the two oldest join
    local t1, c1 = read('<dd', parts[2])
    local _, c0 = read('<dd', parts[1])
    table.remove(parts, 1)
    parts[1] = pack('<dd', t1, c0 + c1)
  end
  w.log, w.from, w.live, w.last, w.cost = concat(parts), 1, #parts, t, cost
  w.first = w.live > 0 and read('<d', w.log) or t
  w.coarse = w.live > MOST / 2 and 1 or 0
end

-- book counts a grant in a window that has been expired.
local function book(w, now, cost)
  if w.used == 0 then
    w.live, w.used, w.first, w.last, w.cost = 0, cost, now, now, cost
    return
  end
  if w.last < now and w.live == MOST then merge(w) end
  w.used = w.used + cost
  if w.last >= now then -- the same instant, or the same quantum
    w.cost = w.cost + cost
    return
  end
  push(w, w.last, w.cost)
  w.last, w.cost = now, cost
  if w.coarse == 1 then w.last = quantized(w, now) end
end

-- seek is the window of a span, or nil.
local function seek(b, per)
  local windows = b.windows
  for i = 1, #windows do
    if windows[i].per == per then return windows[i] end
  end
end

-- view is a window over a bucket's history: what the shortest of its windows
-- that reach back far enough holds, since it is the least coarse, or the longest.
local function view(b, per)
  local from
  for _, w in ipairs(b.windows) do
    if not from or (w.per >= per and (w.per < from.per or from.per < per))
      or (w.per < per and w.per > from.per) then from = w end
  end
  if not from then
    return {per = per, asked = b.now, used = 0, first = FOREVER, last = 0, cost = 0, coarse = 0, live = 0, log = '', from = 1}
  end
  expire(from, b.now)
  local w = {per = per, asked = b.now, used = from.used, first = from.first, last = from.last, cost = from.cost,
    coarse = 0, live = from.live, log = from.log, from = from.from}
  expire(w, b.now)
  return w
end

-- add gives a bucket the window of another span. A span that has not been asked
-- with for longest may have to go for it, but never the longest of all.
local function add(b, per)
  local w = view(b, per)
  local windows = b.windows
  if #windows >= SPANS then
    local longest, oldest = per, nil
    for i = 1, #windows do longest = max(longest, windows[i].per) end
    for i = 1, #windows do
      local o = windows[i]
      if o.per < longest and o.asked < b.now and (not oldest or o.asked < windows[oldest].asked) then oldest = i end
    end
    if oldest then table.remove(windows, oldest) end
  end
  windows[#windows + 1] = w
  return w
end
