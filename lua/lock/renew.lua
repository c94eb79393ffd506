#!lua flags=allow-oom
--! script   lock.renew
--! version  5
--! keys     locks...:hash
--! args     lease_ms:int owners...:str
--! returns  array: for each lock 1 = renewed | 0 = not the owner
--! retry    safe: only ever moves an expiry outward

--! include lib.whole

-- A key of another type is somebody else's by now: pcall turns that error into
-- "not the owner" instead of spoiling the whole batch. Any other is no answer. A longer lease is
-- written too, as it is: replicas confirm what was written, see lua/README.md.
local lease_ms = whole(ARGV[1], 1)

if not lease_ms then
  return redis.error_reply('ERR lease_ms must be a positive integer')
end

local lease, renewed = string.format('%.0f', lease_ms), {}
for i, lock in ipairs(KEYS) do
  local ours = redis.pcall('HEXISTS', lock, ARGV[i + 1])
  if type(ours) == 'table' and not string.find(ours.err, 'WRONGTYPE', 1, true) then
    return ours
  end
  if ours == 1 then
    local left = redis.call('PTTL', lock)
    redis.call('PEXPIRE', lock, left < lease_ms and lease or string.format('%.0f', left))
    renewed[i] = 1
  else
    renewed[i] = 0
  end
end
return renewed
