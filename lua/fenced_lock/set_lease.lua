#!lua flags=allow-oom
--! script   fenced_lock.set_lease
--! version  5
--! keys     lock:hash version_key:string token:string clients:zset
--! args     owner:str lease_ms:int version:int version_ms:int idle_ms:int channel:str
--! returns  1 = set | 0 = not the owner | 2 = superseded
--! retry    safe: sets a length counted from now, never adds to one

--! include lib.whole
--! include lib.superseded
--! include lib.remember
--! include lib.sooner
--! include lib.front
--! include lib.sooner_for

-- As lock.set_lease, for clients that let counters of tokens expire: see fenced_lock.renew.
local lock, version_key, token, clients = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, lease_ms = ARGV[1], whole(ARGV[2], 1)
local version, version_ms, idle_ms = whole(ARGV[3], 0), whole(ARGV[4], 0), whole(ARGV[5], 1)
local channel = ARGV[6]

if not (lease_ms and version and version_ms and idle_ms) then
  return redis.error_reply('ERR lease_ms and idle_ms must be positive integers')
end
if superseded(version_key, version) then
  return 2
end
if redis.call('HEXISTS', lock, owner) == 0 then
  return 0
end
if sooner(lock, lease_ms) then
  sooner_for(clients, channel)
end
remember(version_key, version, version > 0 and version_ms or 0)
redis.call('PEXPIRE', token, string.format('%.0f', lease_ms + idle_ms))
redis.call('PEXPIRE', lock, string.format('%.0f', lease_ms))
return 1
