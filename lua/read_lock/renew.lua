#!lua flags=allow-oom
--! script   read_lock.renew
--! version  1
--! keys     locks...:hash
--! args     lease_ms:int owners...:str
--! returns  array: for each lock 1 = renewed | 0 = not a reader
--! retry    safe: only ever moves an expiry outward

--! include lib.whole
--! include lib.reader_key
--! include lib.reader_keys

-- The keys of this reader's holds, and the hash with them; never another reader's keys, who
-- may be dead. A reader whose keys are all gone counts as dead to others, so it has lost the
-- lock although its field may still be there. A key of another type: see lock.renew.
local lease_ms = whole(ARGV[1], 1)

if not lease_ms then
  return redis.error_reply('ERR lease_ms must be a positive integer')
end

local renewed = {}
for i, lock in ipairs(KEYS) do
  local owner = ARGV[i + 1]
  local held = redis.pcall('HGET', lock, owner)
  if type(held) == 'table' and not string.find(held.err, 'WRONGTYPE', 1, true) then
    return held
  end
  renewed[i] = 0
  local count = type(held) == 'string' and whole(held, 1) or 0
  local reader_holds = reader_keys(lock, owner, 1, count)
  for _, key in ipairs(reader_holds) do
    local left = redis.call('PTTL', key)
    if left ~= -2 then
      renewed[i] = 1
      if left < lease_ms then
        redis.call('PEXPIRE', key, lease_ms)
      end
    end
  end
  if renewed[i] == 1 and redis.call('PTTL', lock) < lease_ms then
    redis.call('PEXPIRE', lock, lease_ms)
  end
end
return renewed
