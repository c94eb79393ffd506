#!lua flags=allow-oom
--! script   write_lock.release
--! version  1
--! keys     lock:hash tombstone:string
--! args     owner:str holds:int lease_ms:int channel:str tombstone_ms:int
--! returns  nil = not the writer | 0 = still held | int > 0 = no longer written, one more than the clients told
--! retry    safe: states the hold count to fall to; a repeated final release finds nothing

--! include lib.whole
--! include lib.reader_key
--! include lib.reader_keys
--! include lib.reader_left
--! include lib.needed_by_readers

-- Also the undo of an acquire; for tombstones see lock.release, for `owner` write_lock.acquire.
-- A writer that also reads goes on reading, and other readers may come in. Redisson tells
-- nobody of that, and they sleep on. Its listeners act on 0 and 1 only, so 2 is ours: our
-- clients look again, and Java is not disturbed. From then on the lock lives as long as its
-- readers need it, even if the writer had a longer lease.
local lock, tombstone = KEYS[1], KEYS[2]
local owner, holds, lease_ms = ARGV[1], whole(ARGV[2], 0), whole(ARGV[3], 1)
local channel, tombstone_ms = ARGV[4], whole(ARGV[5], 0)

if not (holds and lease_ms and tombstone_ms) then
  return redis.error_reply('ERR holds, lease_ms and tombstone_ms must be whole numbers')
end

local mode, held = unpack(redis.call('HMGET', lock, 'mode', owner))
local count = whole(held or '0', 1)
local reply = nil
if held and holds == 0 then
  redis.call('HDEL', lock, owner)
  -- With nothing but the mode left, nobody reads: no need to look.
  local needed = redis.call('HLEN', lock) > 1 and needed_by_readers(lock, math.huge) or 0
  if needed > 0 then
    redis.call('HSET', lock, 'mode', 'read')
    redis.call('PEXPIRE', lock, needed)
    reply = 1 + redis.call('PUBLISH', channel, '2')
  else
    redis.call('DEL', lock)
    reply = 1 + redis.call('PUBLISH', channel, '1')
  end
elseif held then
  if not count then
    return redis.error_reply('ERR the hold count in this hash is not a number')
  end
  redis.call('HSET', lock, owner, math.min(count, holds))
  redis.call('PEXPIRE', lock, math.max(lease_ms, needed_by_readers(lock, math.huge)))
  reply = 0
elseif not mode then
  -- As Redisson: whoever waits for what ended by itself may look at once.
  redis.call('PUBLISH', channel, '1')
end
if tombstone_ms > 0 then
  redis.call('SET', tombstone, '1', 'PX', tombstone_ms)
end
return reply
