#!lua flags=allow-oom
--! script   write_lock.release
--! version  10
--! keys     lock:hash tombstone:string version_key:string writers:zset clients:zset
--! args     owner:str holds:int lease_ms:int channel:str tombstone_ms:int version:int version_ms:int waits:int
--! returns  nil = not the writer | 0 = still held, or superseded | int > 0 = no longer written, one more than the clients told | -1 = free, and clients that wait were called
--! retry    safe: states the hold count to fall to; a repeated final release finds nothing
--! computes lease keys of readers, and their index

-- Also the undo of an acquire; for tombstones see lock.release, for `owner` write_lock.acquire.
-- A writer that also reads goes on reading, and other readers may come in. Redisson tells
-- nobody of that, and they sleep on. Its listeners act on 0 and 1 only, so 2 is ours: our
-- clients look again, and Java is not disturbed. From then on the lock lives as long as its
-- readers need it, even if the writer had a longer lease. With `waits` 1 the writer may still
-- count as waiting: it does so no more, and readers that yielded to it look again.
-- Of the clients in the queue those that may come in are called, see lib/call_sides. The zero before
-- the number that is announced says so; Redisson does not see it.
local lock, clients = KEYS[1], KEYS[5]
local owner, holds, lease_ms = ARGV[1], ARGV[2], ARGV[3]
local channel, tombstone_ms = ARGV[4], ARGV[5]
local version, version_ms, waits = ARGV[6], ARGV[7], ARGV[8]

-- The short way, see lock.release: with nothing but the mode and the writer there, nobody reads;
-- and nobody of ours waits, or a writer is the first and hears its call.
local held = redis.call('HGET', lock, owner)
local fields = held and redis.call('HLEN', lock)
if held and holds == '0' and fields <= 2
  and tombstone_ms == '0' and version == '0' and version_ms == '0' and waits == '0'
  and #lease_ms < 16 and string.find(lease_ms, '^[1-9]%d*$')
then
  local found = redis.pcall('ZRANGE', clients, '0', '1')
  local first = string.sub(found[1] or '', 1, 1) == '>' and found[2] or found[1]
  if not first then
    local told = redis.call('PUBLISH', channel, '01')
    redis.call('DEL', lock)
    return 1 + told
  end
  local own = channel .. ':' .. first
  if string.find(first, '^[^<>].*:write$') and (tonumber(redis.pcall('PUBLISH', own, '0')) or 0) > 0 then
--! include lib.wake_foreign
    wake_foreign(clients, channel)
    redis.call('DEL', lock)
    local time = redis.pcall('TIME')
    local moment = time[1] and string.format('-%.0f', time[1] * 1000000 + time[2])
    if moment then
      redis.pcall('ZADD', clients, moment, '>' .. first)
    end
    return -1
  end
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
--! include lib.sides_front
--! include lib.call_sides
--! include lib.mark_sides
--! include lib.sooner_for_sides

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
local waited, called = waits > 0 and redis.call('ZSCORE', writers, owner), {}
if held and holds == 0 and needed > 0 then
  reply = 1 + redis.call('PUBLISH', channel, '02')
  called = call_sides(clients, channel, '', true)
elseif held and holds == 0 then
  reply = 1 + redis.call('PUBLISH', channel, '01')
  called = call_sides(clients, channel)
  reply = called[1] and -1 or reply
elseif held and sooner(lock, math.max(lease_ms, needed)) then
  redis.call('PUBLISH', channel, '1')
  sooner_for_sides(clients, channel)
elseif not mode then
  -- As Redisson: whoever waits for what ended by itself may look at once.
  redis.call('PUBLISH', channel, '1')
elseif waited and mode == 'read' then
  redis.call('PUBLISH', channel, '02')
  called = call_sides(clients, channel, '', true)
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
mark_sides(clients, called)
return reply
