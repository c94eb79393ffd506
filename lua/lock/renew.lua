#!lua flags=allow-oom
--! script   lock.renew
--! version  1
--! keys     locks...:hash
--! args     lease_ms:int owners...:str
--! returns  array: for each lock 1 = renewed | 0 = not the owner
--! retry    safe: only ever moves an expiry outward

--! include lib.whole

-- A key of another type is somebody else's by now: pcall turns its error into
-- "not the owner" instead of spoiling the whole batch.
local lease_ms = whole(ARGV[1], 1)

if not lease_ms then
  return redis.error_reply('ERR lease_ms must be a positive integer')
end

local renewed = {}
for i, lock in ipairs(KEYS) do
  if redis.pcall('HEXISTS', lock, ARGV[i + 1]) == 1 then
    if redis.call('PTTL', lock) < lease_ms then
      redis.call('PEXPIRE', lock, lease_ms)
    end
    renewed[i] = 1
  else
    renewed[i] = 0
  end
end
return renewed
