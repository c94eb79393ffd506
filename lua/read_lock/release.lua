#!lua flags=allow-oom
--! script   read_lock.release
--! version  2
--! keys     lock:hash tombstone:string version_key:string
--! args     owner:str holds:int lease_ms:int channel:str tombstone_ms:int version:int version_ms:int
--! returns  nil = not a reader | 0 = still held, by this reader or another, or superseded | int > 0 = free, one more than the clients told
--! retry    safe: states the hold count to fall to; a repeated final release finds nothing

--! include lib.whole
--! include lib.superseded
--! include lib.remember
--! include lib.reader_key
--! include lib.reader_keys
--! include lib.reader_left
--! include lib.now
--! include lib.readers_index
--! include lib.index_reader
--! include lib.needed_by_readers

-- Also the undo of an acquire; for tombstones and versions see lock.release. The last reader
-- frees the lock, whatever fields dead readers have left in it. Otherwise the hash lives from now
-- on as long as the longest of the other leases, so that a reader that leaves early keeps nobody
-- waiting. To know that, others must be looked at, so it is done only if the hash may have lived
-- for the one that leaves, and only until another is found that needs it for about as long. How long a writer that also reads needs it is not known here: then it
-- is never shortened.
local lock, tombstone, version_key = KEYS[1], KEYS[2], KEYS[3]
local owner, holds, lease_ms = ARGV[1], whole(ARGV[2], 0), whole(ARGV[3], 1)
local channel, tombstone_ms = ARGV[4], whole(ARGV[5], 0)
local version, version_ms = whole(ARGV[6], 0), whole(ARGV[7], 0)

if not (holds and lease_ms and tombstone_ms and version and version_ms) then
  return redis.error_reply('ERR holds, lease_ms and tombstone_ms must be whole numbers')
end
if superseded(version_key, version) then
  return 0
end
version_ms = version > 0 and version_ms or 0

local mode, held = unpack(redis.call('HMGET', lock, 'mode', owner))
local count = whole(held or '0', 1) or 0
if held and holds > 0 and count == 0 then
  return redis.error_reply('ERR the hold count in this hash is not a number')
end
local index = readers_index(lock)
local fields = held and redis.call('HLEN', lock) or 0
if count == 1 and holds == 0 and mode == 'read' and fields == 2 then
  -- Nobody else is in: no leases to look at.
  local told = redis.call('PUBLISH', channel, '0')
  remember(tombstone, '1', tombstone_ms)
  remember(version_key, version, version_ms)
  redis.call('DEL', lock, reader_key(lock, owner, 1), index)
  return 1 + told
end

holds = math.min(holds, count)
local reply, keeps_ms = held and 0 or nil, nil
if held then
  local before, left = reader_left(lock, owner, count), redis.call('PTTL', lock)
  local enough = left < 0 and math.huge or math.max(1, left - 100)
  local needed_by_me = holds > 0 and lease_ms or 0
  if left < needed_by_me or before >= enough or (holds == 0 and fields == 2) then
    local needed = math.max(needed_by_me, needed_by_readers(lock, enough, owner))
    if mode == 'read' and needed == 0 then
      reply = 1 + redis.call('PUBLISH', channel, '0')
    elseif needed > left or (mode == 'read' and needed < enough) then
      keeps_ms = needed
    end
  end
elseif not mode then
  -- As Redisson: whoever waits for what ended by itself may look at once.
  redis.call('PUBLISH', channel, '0')
end

remember(tombstone, '1', tombstone_ms)
remember(version_key, version, version_ms)
if not held then
  return reply
end
local reader_holds = reader_keys(lock, owner, holds + 1, count)
for _, key in ipairs(reader_holds) do
  redis.call('DEL', key)
end
if reply > 0 then
  redis.call('DEL', lock, index)
elseif holds == 0 then
  redis.call('HDEL', lock, owner)
  redis.call('ZREM', index, owner)
elseif holds < count then
  redis.call('HSET', lock, owner, holds)
end
if holds > 0 then
  index_reader(lock, owner, lease_ms, 'CH', false)
end
reader_holds = reader_keys(lock, owner, 1, holds)
for _, key in ipairs(reader_holds) do
  redis.call('SET', key, '1', 'PX', lease_ms)
end
if keeps_ms then
  redis.call('PEXPIRE', lock, keeps_ms)
end
return reply
