#!lua flags=allow-oom
--! script   fair_lock.leave_taken
--! version  2
--! keys     lock:hash tombstone:string queue:list timeouts:zset waiters:zset
--! args     owner:str nobody:str stays_ms:int beyond_ms:str channel:str tombstone_ms:int
--! returns  nil = not the owner | 1 = the name stays taken
--! retry    safe: renames the owner once, and an owner that is renamed keeps its expiry

-- As lock.leave_taken; of those who wait only the first asks when the lease ends.
local lock, tombstone, queue, timeouts, waiters = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local owner, nobody, stays_ms = ARGV[1], ARGV[2], ARGV[3]
local beyond_ms, channel, tombstone_ms = ARGV[4], ARGV[5], ARGV[6]

--! include lib.whole
--! include lib.integer
--! include lib.remember
--! include lib.now
--! include lib.living_head
--! include lib.sooner

stays_ms, tombstone_ms = whole(stays_ms, 1), whole(tombstone_ms, 0)
local beyond = beyond_ms ~= '' and integer(beyond_ms)

if not (stays_ms and tombstone_ms and (beyond or beyond_ms == '')) then
  return redis.error_reply('ERR stays_ms, beyond_ms and tombstone_ms must be whole numbers')
end

local held = redis.call('HEXISTS', lock, owner) == 1
local renamed = not held and redis.call('HEXISTS', lock, nobody) == 1
local left = held and redis.call('PTTL', lock) or -1
if beyond and left >= 0 then
  stays_ms = math.max(1, math.min(stays_ms, left + beyond))
end
local head, _ = nil, nil
if held and sooner(lock, stays_ms) then
  head, _ = living_head(queue, timeouts, waiters, now())
end
if head then
  local head_channel = channel .. ':' .. head
  redis.call('PUBLISH', head_channel, '0')
end
remember(tombstone, '1', tombstone_ms)
if held then
  -- These change nothing: see lib/remember, and a refusal of either comes before the change.
  redis.call('HDEL', lock, '')
  redis.call('HINCRBY', lock, owner, '0')
  redis.call('PEXPIRE', lock, string.format('%.0f', stays_ms))
  redis.call('HINCRBY', lock, nobody, '1')
  redis.call('HDEL', lock, owner)
end
return (held or renamed) and 1 or nil
