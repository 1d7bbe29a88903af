-- A throttle is one string: version, its clock, which is as a bucket's, and its
-- end.
local THROTTLE, THROTTLESIZE = '<Bddd', 25

-- closed is for how long a caller's key stays closed. Of a value that cannot be
-- a throttle it is not known for how long.
local function closed(key, raw)
  if not raw then return 0 end
  if #raw == THROTTLESIZE and raw:byte() == VERSION then
    local _, offset, last, ends = read(THROTTLE, raw)
    local now = clock + offset
    if offset >= 0 and last >= 0 and now < FOREVER and last <= ends and ends <= FOREVER then
      if now >= last then return ends - now end
      redis.call('SET', key, pack(THROTTLE, VERSION, last - clock, last, ends), 'KEEPTTL')
      return ends - last
    end
  end
  redis.call('SET', key, pack(THROTTLE, VERSION, 0, clock, clock + FULL), 'PX', FULL / 1000)
  return FULL
end
