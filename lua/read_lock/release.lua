#!lua flags=allow-oom
--! script   read_lock.release
--! version  9
--! keys     lock:hash tombstone:string version_key:string clients:zset
--! args     owner:str holds:int lease_ms:int channel:str tombstone_ms:int version:int version_ms:int
--! returns  nil = not a reader | 0 = still held, by this reader or another, or superseded | int > 0 = free, one more than the clients told | -1 = free, and clients that wait were called
--! retry    safe: states the hold count to fall to; a repeated final release finds nothing
--! computes lease keys of readers, and their index

-- Also the undo of an acquire; for tombstones and versions see lock.release. The last reader
-- frees the lock, whatever fields dead readers have left in it. Otherwise the hash lives from now
-- on as long as the longest of the other leases, so that a reader that leaves early keeps nobody
-- waiting. To know that, others must be looked at, so it is done only if the hash may have lived
-- for the one that leaves, and only until another is found that needs it for about as long. How long a writer that also reads needs it is not known here: then it
-- is never shortened.
-- For the queue of clients see write_lock.release.
local lock, clients = KEYS[1], KEYS[4]
local owner, holds, lease_ms = ARGV[1], ARGV[2], ARGV[3]
local channel, tombstone_ms = ARGV[4], ARGV[5]
local version, version_ms = ARGV[6], ARGV[7]

-- The short way, see read_lock.acquire: nobody else is in, so there are no leases to look at. For the
-- names see lib/reader_key and lib/readers_index.
local read = redis.call('HMGET', lock, 'mode', owner)
local mode, held = read[1], read[2]
local fields = held and redis.call('HLEN', lock) or 0
local tag = '{' .. lock .. '}'
if string.find(lock, '{', 1, true) then
  tag = lock
end
local index = tag .. ':redisson_py:readers'
local plain = held == '1' and holds == '0' and mode == 'read'
  and tombstone_ms == '0' and version == '0' and version_ms == '0'
  and #lease_ms < 16 and string.find(lease_ms, '^[1-9]%d*$')
if plain and fields == 2 then
  local mine = tag .. ':' .. owner .. ':rwlock_timeout:1'
  local found = redis.pcall('ZRANGE', clients, '0', '1')
  local first = string.sub(found[1] or '', 1, 1) == '>' and found[2] or found[1]
  if not first then
    local told = redis.call('PUBLISH', channel, '00')
    redis.call('DEL', lock, mine, index)
    return 1 + told
  end
  local own = channel .. ':' .. first
  if string.find(first, '^[^<>].*:write$') and (tonumber(redis.pcall('PUBLISH', own, '0')) or 0) > 0 then
--! include lib.wake_foreign
    wake_foreign(clients, channel)
    redis.call('DEL', lock, mine, index)
    local time = redis.pcall('TIME')
    local moment = time[1] and string.format('-%.0f', time[1] * 1000000 + time[2])
    if moment then
      redis.pcall('ZADD', clients, moment, '>' .. first)
    end
    return -1
  end
end

--! include lib.reader_key
--! include lib.readers_index

-- The same beside other readers, if the hash need not be cut: it does not live for this reader, or
-- another one needs it for about as long.
if plain and fields <= 16 then
  local mine = reader_key(lock, owner, 1)
  local before, left = redis.call('PTTL', mine), redis.call('PTTL', lock)
  local enough = math.max(1, left - 100)
  local stays = left > 0 and before < enough
  local readers = not stays and redis.call('HGETALL', lock) or {}
  for i, text in ipairs(readers) do
    if text == '1' and i % 2 == 0 and readers[i - 1] ~= owner then
      local needed = redis.call('PTTL', reader_key(lock, readers[i - 1], 1))
      if needed >= enough and needed <= left then
        stays = true
        break
      end
    end
  end
  if stays then
    redis.call('DEL', mine)
    redis.call('HDEL', lock, owner)
    redis.call('ZREM', index, owner)
    return 0
  end
end

local tombstone, version_key = KEYS[2], KEYS[3]
--! include lib.whole
--! include lib.superseded
--! include lib.remember
--! include lib.reader_keys
--! include lib.reader_left
--! include lib.now
--! include lib.index_reader
--! include lib.needed_by_readers
--! include lib.sides_front
--! include lib.call_sides
--! include lib.mark_sides
--! include lib.sooner_for_sides

holds, lease_ms, tombstone_ms = whole(holds, 0), whole(lease_ms, 1), whole(tombstone_ms, 0)
version, version_ms = whole(version, 0), whole(version_ms, 0)

if not (holds and lease_ms and tombstone_ms and version and version_ms) then
  return redis.error_reply('ERR holds, lease_ms and tombstone_ms must be whole numbers')
end
if superseded(version_key, version) then
  return 0
end
version_ms = version > 0 and version_ms or 0

local count = whole(held or '0', 1) or 0
if held and holds > 0 and count == 0 then
  return redis.error_reply('ERR the hold count in this hash is not a number')
end
if count == 1 and holds == 0 and mode == 'read' and fields == 2 then
  -- Nobody else is in: no leases to look at.
  local told, called = redis.call('PUBLISH', channel, '00'), call_sides(clients, channel)
  remember(tombstone, '1', tombstone_ms)
  remember(version_key, version, version_ms)
  redis.call('DEL', lock, reader_key(lock, owner, 1), index)
  mark_sides(clients, called)
  return called[1] and -1 or 1 + told
end

holds = math.min(holds, count)
local reply, keeps_ms, called = held and 0 or nil, nil, {}
if held then
  local before, left = reader_left(lock, owner, count), redis.call('PTTL', lock)
  local enough = left < 0 and math.huge or math.max(1, left - 100)
  local needed_by_me = holds > 0 and lease_ms or 0
  if left < needed_by_me or before >= enough or (holds == 0 and fields == 2) then
    local needed = math.max(needed_by_me, needed_by_readers(lock, enough, owner))
    if mode == 'read' and needed == 0 then
      reply = 1 + redis.call('PUBLISH', channel, '00')
      called = call_sides(clients, channel)
    elseif mode == 'read' and needed < enough then
      -- Writers wait for the longest of the readers, and that one has left.
      redis.call('PUBLISH', channel, '0')
      sooner_for_sides(clients, channel)
      keeps_ms = needed
    elseif needed > left then
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
  redis.call('HSET', lock, owner, string.format('%.0f', holds))
end
if holds > 0 then
  index_reader(lock, owner, lease_ms, 'CH', false)
end
reader_holds = reader_keys(lock, owner, 1, holds)
for _, key in ipairs(reader_holds) do
  redis.call('SET', key, '1', 'PX', string.format('%.0f', lease_ms))
end
if keeps_ms then
  redis.call('PEXPIRE', lock, string.format('%.0f', keeps_ms))
end
mark_sides(clients, called)
return called[1] and -1 or reply
