-- lapse frees the places whose hold has passed. Until the bound none has.
local function lapse(b)
  if b.bound > b.now then return end
  local kept, n, bound, latest = {}, 0, FOREVER, 0
  for at = 1, #b.places, 20 do
    local t = read('<d', b.places, at + 12)
    if t > b.now and t <= FOREVER then
      n = n + 1
      kept[n] = sub(b.places, at, at + 19)
      if t < bound then bound = t end
      if t > latest then latest = t end
    end
  end
  b.places, b.held, b.bound, b.latest = concat(kept), n, bound, latest
end

-- find is where a permit's place is, or nil.
local function find(b, name)
  local at = 1
  repeat
    at = b.places:find(name, at, true)
    if not at or at % 20 == 1 then return at end
    at = at + 1
  until false
end
