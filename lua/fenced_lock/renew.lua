#!lua flags=allow-oom
--! script   fenced_lock.renew
--! version  4
--! keys     locks...:hash
--! args     lease_ms:int idle_ms:int owners...:str
--! returns  array: for each lock 1 = renewed | 0 = not the owner
--! retry    safe: only ever moves the expiry of a lock outward, and sets that of its counter after it

--! include lib.whole

-- As lock.renew, for clients that let counters of tokens expire: behind the locks come as many
-- counters, each of which stays idle_ms longer than its lock. Others use lock.renew.
local lease_ms, idle_ms = whole(ARGV[1], 1), whole(ARGV[2], 1)

if not (lease_ms and idle_ms) then
  return redis.error_reply('ERR lease_ms and idle_ms must be positive integers')
end
local owners = #ARGV - 2
if #KEYS ~= 2 * owners then
  return redis.error_reply('ERR each owner has two keys')
end

local lease, renewed = string.format('%.0f', lease_ms), {}
for i, lock in ipairs(KEYS) do
  if i > owners then
    break
  end
  local counter = KEYS[owners + i]
  local ours = redis.pcall('HEXISTS', lock, ARGV[i + 2])
  if type(ours) == 'table' and not string.find(ours.err, 'WRONGTYPE', 1, true) then
    return ours
  end
  renewed[i] = 0
  if ours == 1 then
    renewed[i] = 1
    local left = redis.call('PTTL', lock)
    -- The counter first: it must not be gone before its lock.
    redis.call('PEXPIRE', counter, string.format('%.0f', math.max(left, lease_ms) + idle_ms))
    if left < lease_ms then
      redis.call('PEXPIRE', lock, lease)
    end
  end
end
return renewed
