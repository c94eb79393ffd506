#!lua flags=allow-oom
--! script   write_lock.release
--! version  8
--! keys     lock:hash tombstone:string version_key:string writers:zset
--! args     owner:str holds:int lease_ms:int channel:str tombstone_ms:int version:int version_ms:int waits:int
--! returns  nil = not the writer | 0 = still held, or superseded | int > 0 = no longer written, one more than the clients told
--! retry    safe: states the hold count to fall to; a repeated final release finds nothing
--! computes lease keys of readers, and their index

-- Also the undo of an acquire; for tombstones see lock.release, for `owner` write_lock.acquire.
-- A writer that also reads goes on reading, and other readers may come in. Redisson tells
-- nobody of that, and they sleep on. Its listeners act on 0 and 1 only, so 2 is ours: our
-- clients look again, and Java is not disturbed. From then on the lock lives as long as its
-- readers need it, even if the writer had a longer lease. With `waits` 1 the writer may still
-- count as waiting: it does so no more, and readers that yielded to it look again.
local lock = KEYS[1]
local owner, holds, lease_ms = ARGV[1], ARGV[2], ARGV[3]
local channel, tombstone_ms = ARGV[4], ARGV[5]
local version, version_ms, waits = ARGV[6], ARGV[7], ARGV[8]

-- The short way, see read_lock.acquire: with nothing but the mode and the writer there, nobody
-- reads.
local held = redis.call('HGET', lock, owner)
local fields = held and redis.call('HLEN', lock)
if held and holds == '0' and fields <= 2
  and tombstone_ms == '0' and version == '0' and version_ms == '0' and waits == '0'
  and #lease_ms < 16 and string.find(lease_ms, '^[1-9]%d*$')
then
  local told = redis.call('PUBLISH', channel, '1')
  redis.call('DEL', lock)
  return 1 + told
end

local tombstone, version_key, writers = KEYS[2], KEYS[3], KEYS[4]
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

holds, lease_ms, tombstone_ms = whole(holds, 0), whole(lease_ms, 1), whole(tombstone_ms, 0)
version, version_ms, waits = whole(version, 0), whole(version_ms, 0), whole(waits, 0)

if not (holds and lease_ms and tombstone_ms and version and version_ms and waits) then
  return redis.error_reply('ERR holds, lease_ms and tombstone_ms must be whole numbers')
end
if superseded(version_key, version) then
  return 0
end

local mode = redis.call('HGET', lock, 'mode')
local count = whole(held or '', 1)
if held and holds > 0 and not count then
  return redis.error_reply('ERR the hold count in this hash is not a number')
end
local reads = held and (holds > 0 or fields > 2)
local needed = reads and needed_by_readers(lock, math.huge) or 0
local reply = held and 0 or nil
local waited = waits > 0 and redis.call('ZSCORE', writers, owner)
if held and holds == 0 and needed > 0 then
  reply = 1 + redis.call('PUBLISH', channel, '2')
elseif held and holds == 0 then
  reply = 1 + redis.call('PUBLISH', channel, '1')
elseif held and sooner(lock, math.max(lease_ms, needed)) then
  redis.call('PUBLISH', channel, '1')
elseif not mode then
  -- As Redisson: whoever waits for what ended by itself may look at once.
  redis.call('PUBLISH', channel, '1')
elseif waited and mode == 'read' then
  redis.call('PUBLISH', channel, '2')
end
remember(tombstone, '1', tombstone_ms)
remember(version_key, version, version > 0 and version_ms or 0)
if waited then
  redis.call('ZREM', writers, owner)
end
if held and holds > 0 then
  -- Removes nothing: see lib/remember.
  redis.call('HDEL', lock, '')
  redis.call('HSET', lock, owner, string.format('%.0f', math.min(count, holds)))
  redis.call('PEXPIRE', lock, string.format('%.0f', math.max(lease_ms, needed)))
elseif held and needed > 0 then
  redis.call('HDEL', lock, owner)
  redis.call('HSET', lock, 'mode', 'read')
  redis.call('PEXPIRE', lock, string.format('%.0f', needed))
elseif held then
  redis.call('DEL', lock)
end
return reply
