#!lua flags=allow-oom
--! script   read_lock.set_lease
--! version  7
--! keys     lock:hash version_key:string clients:zset
--! args     owner:str lease_ms:int version:int version_ms:int channel:str
--! returns  1 = set | 0 = not a reader | 2 = superseded
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
--! include lib.index_reader
--! include lib.needed_by_readers
--! include lib.sides_front
--! include lib.sooner_for_sides

-- This reader's leases become `lease_ms`, shorter or longer. The hash lives as long as the
-- longest lease of all readers; a writer that also reads may need it longer still.
local lock, version_key, clients = KEYS[1], KEYS[2], KEYS[3]
local owner, lease_ms = ARGV[1], whole(ARGV[2], 1)
local version, version_ms, channel = whole(ARGV[3], 0), whole(ARGV[4], 0), ARGV[5]

if not (lease_ms and version and version_ms) then
  return redis.error_reply('ERR lease_ms must be a positive integer')
end
if superseded(version_key, version) then
  return 2
end
local mode, held = unpack(redis.call('HMGET', lock, 'mode', owner))
local count = whole(held or '0', 1) or 0
if reader_left(lock, owner, count) == -2 then
  return 0
end
local needed = math.max(lease_ms, needed_by_readers(lock, math.huge, owner))
if mode == 'read' and sooner(lock, needed) then
  redis.call('PUBLISH', channel, '0')
  sooner_for_sides(clients, channel)
end
remember(version_key, version, version > 0 and version_ms or 0)
index_reader(lock, owner, lease_ms, 'CH', false)
local reader_holds = reader_keys(lock, owner, 1, count)
for _, key in ipairs(reader_holds) do
  redis.call('PEXPIRE', key, string.format('%.0f', lease_ms))
end
if mode == 'read' or redis.call('PTTL', lock) < needed then
  redis.call('PEXPIRE', lock, string.format('%.0f', needed))
end
return 1
