-- A throttle is one string: its clock, which is as a bucket's, and its end.
--
-- closed is for how long a caller's key stays closed. Of a value that cannot be
-- a throttle it is not known for how long.
local function closed(key, raw)
  if not raw then return 0 end
  if #raw == 24 then
    local offset, last, ends = read('<ddd', raw)
    local now = clock + offset
    if offset >= 0 and last >= 0 and now < FOREVER and last <= ends and ends <= FOREVER then
      if now >= last then return ends - now end
      redis.call('SET', key, pack('<ddd', last - clock, last, ends), 'KEEPTTL')
      return ends - last
    end
  end
  redis.call('SET', key, pack('<ddd', 0, clock, clock + FULL), 'PX', FULL / 1000)
  return FULL
end
