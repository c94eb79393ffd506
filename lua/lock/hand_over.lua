#!lua flags=allow-oom
--! script   lock.hand_over
--! version  1
--! keys     lock:hash tombstone:string version_key:string
--! args     owner:str lease_ms:int tombstone_ms:int version:int version_ms:int
--! returns  int > 0 = kept, until this millisecond of the epoch | 0 = not the owner | -1 = superseded
--! retry    safe: only ever moves an expiry outward

--! include lib.whole
--! include lib.superseded
--! include lib.remember
--! include lib.now

-- Keeps a hold for whoever adopts it: its owner renews it no more. It stays under the name of that
-- owner until then, so a caller that gets no answer still holds it. With tombstone_ms a late
-- acquire of that owner is refused from now on: after the lease it would make a hold that the
-- adopter takes for this one. A tombstone hinders no hold that is there.
local lock, tombstone, version_key = KEYS[1], KEYS[2], KEYS[3]
local owner, lease_ms, tombstone_ms = ARGV[1], whole(ARGV[2], 1), whole(ARGV[3], 0)
local version, version_ms = whole(ARGV[4], 0), whole(ARGV[5], 0)

if not (lease_ms and tombstone_ms and version and version_ms) then
  return redis.error_reply('ERR lease_ms must be a positive integer')
end
if superseded(version_key, version) then
  return -1
end
if redis.call('HEXISTS', lock, owner) == 0 then
  return 0
end
local left = math.max(redis.call('PTTL', lock), lease_ms)
remember(tombstone, '1', tombstone_ms)
remember(version_key, version, version > 0 and version_ms or 0)
redis.call('PEXPIRE', lock, string.format('%.0f', left))
return now() + left
