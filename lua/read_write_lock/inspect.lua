--! script   read_write_lock.inspect
--! version  3
--! keys     lock:hash
--! args
--! returns  array: milliseconds left (-2 = free, -1 = no lease), the mode, then field, hold count and milliseconds left (-2 = over, or the writer) of each holder in turn
--! retry    safe: reads only
--! computes lease keys of readers

--! include lib.whole
--! include lib.reader_key
--! include lib.reader_keys
--! include lib.reader_left

local lock = KEYS[1]

local found = {redis.call('PTTL', lock), redis.call('HGET', lock, 'mode') or ''}
local readers = redis.call('HGETALL', lock)
for i, text in ipairs(readers) do
  local count = i % 2 == 0 and whole(text, 1)
  if count then
    local field = readers[i - 1]
    found[#found + 1] = field
    found[#found + 1] = count
    found[#found + 1] = reader_left(lock, field, count)
  end
end
return found
