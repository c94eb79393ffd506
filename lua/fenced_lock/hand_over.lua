#!lua flags=allow-oom
--! script   fenced_lock.hand_over
--! version  1
--! keys     lock:hash tombstone:string version_key:string token:string
--! args     owner:str secret:str lease_ms:int tombstone_ms:int version:int version_ms:int idle_ms:int
--! returns  int > 0 = kept, until this millisecond of the epoch | 0 = not the owner | -1 = superseded
--! retry    safe: only ever moves an expiry outward

--! include lib.whole
--! include lib.superseded
--! include lib.remember
--! include lib.now

-- As lock.hand_over, for clients that let counters of tokens expire: see fenced_lock.renew.
local lock, tombstone, version_key, token = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, secret, lease_ms, tombstone_ms = ARGV[1], ARGV[2], whole(ARGV[3], 1), whole(ARGV[4], 1)
local version, version_ms, idle_ms = whole(ARGV[5], 0), whole(ARGV[6], 0), whole(ARGV[7], 1)

if not (lease_ms and tombstone_ms and version and version_ms and idle_ms) then
  return redis.error_reply('ERR lease_ms, tombstone_ms and idle_ms must be positive integers')
end
if superseded(version_key, version) then
  return -1
end
if redis.call('HEXISTS', lock, owner) == 0 then
  return 0
end
local left = math.max(redis.call('PTTL', lock), lease_ms)
local kept = string.format('%.0f', math.max(left, tombstone_ms))
-- Takes no memory: see lib/remember.
redis.call('PEXPIRE', tombstone, kept)
redis.call('SET', tombstone, secret, 'PX', kept)
remember(version_key, version, version > 0 and version_ms or 0)
redis.call('PEXPIRE', token, string.format('%.0f', left + idle_ms))
redis.call('PEXPIRE', lock, string.format('%.0f', left))
return now() + left
