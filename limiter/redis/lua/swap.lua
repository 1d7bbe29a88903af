-- KEYS: a blob. ARGV: whether there is one, what it is, whether there shall be
-- one, what it shall be.
-- The answer: nil where it is done, else a list of what it is.
local found = get(KEYS[1])
if (found and '1' or '0') ~= ARGV[1] or (found or '') ~= ARGV[2] then return {found} end
if ARGV[3] == '1' then
  redis.call('SET', KEYS[1], ARGV[4])
else
  redis.call('DEL', KEYS[1])
end
