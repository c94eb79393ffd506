#!lua flags=allow-oom
--! script   lock.hand_over
--! version  1
--! keys     lock:hash tombstone:string version_key:string
--! args     owner:str secret:str lease_ms:int tombstone_ms:int version:int version_ms:int
--! returns  int > 0 = kept, until this millisecond of the epoch | 0 = not the owner | -1 = superseded
--! retry    safe: only ever moves an expiry outward

--! include lib.whole
--! include lib.superseded
--! include lib.remember
--! include lib.now

-- Keeps a hold for whoever adopts it: its owner renews it no more. It stays under the name of that
-- owner until then, so a caller that gets no answer still holds it. Its tombstone is the
-- secret that an adopter must know. It also refuses a late acquire of that owner, which after the
-- lease would make a hold that an adopter takes for this one. It hinders no hold that is there.
local lock, tombstone, version_key = KEYS[1], KEYS[2], KEYS[3]
local owner, secret, lease_ms, tombstone_ms = ARGV[1], ARGV[2], whole(ARGV[3], 1), whole(ARGV[4], 1)
local version, version_ms = whole(ARGV[5], 0), whole(ARGV[6], 0)

if not (lease_ms and tombstone_ms and version and version_ms) then
  return redis.error_reply('ERR lease_ms and tombstone_ms must be positive integers')
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
redis.call('PEXPIRE', lock, string.format('%.0f', left))
return now() + left
