#!lua flags=allow-oom
--! script   write_lock.set_lease
--! version  7
--! keys     lock:hash version_key:string clients:zset
--! args     owner:str lease_ms:int version:int version_ms:int channel:str
--! returns  1 = set | 0 = not the writer | 2 = superseded
--! retry    safe: sets a length counted from now, never adds to one
--! computes lease keys of readers, and their index

--! include lib.whole
--! include lib.superseded
--! include lib.remember
--! include lib.sooner
--! include lib.reader_key
--! include lib.reader_keys
--! include lib.reader_left
--! include lib.now
--! include lib.readers_index
--! include lib.needed_by_readers
--! include lib.sides_front
--! include lib.sooner_for_sides

-- As lock.set_lease, but a writer that also reads may have a longer lease for that.
local lock, version_key, clients = KEYS[1], KEYS[2], KEYS[3]
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
local needed = math.max(lease_ms, needed_by_readers(lock, math.huge))
-- Readers and writers wait for a writer.
if sooner(lock, needed) then
  redis.call('PUBLISH', channel, '1')
  sooner_for_sides(clients, channel)
end
remember(version_key, version, version > 0 and version_ms or 0)
redis.call('PEXPIRE', lock, string.format('%.0f', needed))
return 1
