#!lua flags=allow-oom
--! script   fair_lock.set_lease
--! version  1
--! keys     lock:hash version_key:string queue:list timeouts:zset waiters:zset
--! args     owner:str lease_ms:int version:int version_ms:int channel:str
--! returns  1 = set | 0 = not the owner | 2 = superseded
--! retry    safe: sets a length counted from now, never adds to one

--! include lib.whole
--! include lib.superseded
--! include lib.remember
--! include lib.now
--! include lib.living_head
--! include lib.sooner

-- As lock.set_lease; of those who wait only the first asks when the lease ends.
local lock, version_key, queue, timeouts, waiters = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local owner, lease_ms = ARGV[1], whole(ARGV[2], 1)
local version, version_ms, channel = whole(ARGV[3], 0), whole(ARGV[4], 0), ARGV[5]

if not (lease_ms and version and version_ms) then
  return redis.error_reply('ERR lease_ms must be a positive integer')
end
if superseded(version_key, version) then
  return 2
end
if redis.call('HEXISTS', lock, owner) == 0 then
  return 0
end
local head, _ = living_head(queue, timeouts, waiters, now())
if head and sooner(lock, lease_ms) then
  local head_channel = channel .. ':' .. head
  redis.call('PUBLISH', head_channel, '0')
end
remember(version_key, version, version > 0 and version_ms or 0)
redis.call('PEXPIRE', lock, string.format('%.0f', lease_ms))
return 1
