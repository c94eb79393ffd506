#!lua flags=allow-oom
--! script   read_lock.renew
--! version  7
--! keys     locks...:hash
--! args     lease_ms:int owners...:str
--! returns  array: for each lock 1 = renewed, or still a reader | 0 = not a reader
--! retry    safe: only ever moves an expiry outward
--! computes lease keys of readers, and their index

--! include lib.whole
--! include lib.reader_key
--! include lib.reader_keys
--! include lib.now
--! include lib.readers_index
--! include lib.index_reader

-- The keys of this reader's holds, and the hash with them; never another reader's keys, who
-- may be dead. A reader whose keys are all gone counts as dead to others, so it has lost the
-- lock although its field may still be there. The hash lives as long as the longest of these
-- keys: Redisson's watchdog sets it to its own timeout, also where that is shorter, and nobody
-- would mend it if that client died. With lease_ms 0 nothing but that is done. A key of another
-- type, and a longer lease: see lock.renew.
local lease_ms = whole(ARGV[1], 0)

if not lease_ms then
  return redis.error_reply('ERR lease_ms must be a whole number')
end

local lease, renewed = string.format('%.0f', lease_ms), {}
for i, lock in ipairs(KEYS) do
  local owner = ARGV[i + 1]
  local held = redis.pcall('HGET', lock, owner)
  if type(held) == 'table' and not string.find(held.err, 'WRONGTYPE', 1, true) then
    return held
  end
  renewed[i] = 0
  local count = type(held) == 'string' and whole(held, 1) or 0
  local reader_holds = reader_keys(lock, owner, 1, count)
  local longest = lease_ms
  for _, key in ipairs(reader_holds) do
    local left = redis.call('PTTL', key)
    if left ~= -2 then
      renewed[i] = 1
      longest = math.max(longest, left)
      if lease_ms > 0 then
        redis.call('PEXPIRE', key, left < lease_ms and lease or string.format('%.0f', left))
      end
    end
  end
  if renewed[i] == 1 and lease_ms > 0 then
    index_reader(lock, owner, longest, 'CH', false)
  end
  if renewed[i] == 1 and longest > 0 and redis.call('PTTL', lock) < longest then
    redis.call('PEXPIRE', lock, string.format('%.0f', longest))
  end
end
return renewed
