-- The epoch says since when what is kept here is all there is. It names itself,
-- the one that it came after, when state was last lost or may have been (the
-- mark), and the server it lives on.
--
-- KEYS: the epoch. ARGV: the one its asker has seen, or nothing; a new name;
-- whether to tell of memory.
-- The answer: the epoch; what the server says of itself, of its memory; and what
-- kept the epoch from being written.
local EPOCH, UNKNOWN = '<c16c16dc40', ('-'):rep(40)
local seen, name = ARGV[1], ARGV[2]

-- info is a section, or the error in its place where nobody may know.
local function info(section)
  local text = redis.pcall('INFO', section)
  return type(text) == 'string' and text or text.err
end

local about = info('server')
local server = sub((about:match('run_id:(%x+)') or '') .. UNKNOWN, 1, 40)
local raw = get(KEYS[1])
local id, before, mark, home = name, ('-'):rep(16), 0, server
if raw and #raw == 80 then
  id, before, mark, home = read(EPOCH, raw)
  if seen ~= '' and seen ~= id and seen ~= before then
    before, mark = seen, clock -- somebody began a new one and could not know of ours
  end
  if server ~= UNKNOWN and server ~= home then
    if home ~= UNKNOWN then mark = clock end -- a replica that may lack the last grants, or a restart
    home = server
  end
  if not (mark <= clock) then mark = clock end
elseif raw or seen ~= '' then
  mark = clock
  if seen ~= '' then before = seen end
end
local epoch = pack(EPOCH, id, before, mark, home)
local failed = ''
if epoch ~= raw then
  local done = redis.pcall('SET', KEYS[1], epoch)
  failed = done.err or ''
end
return {epoch, about, ARGV[3] == '1' and info('memory') or '', failed}
