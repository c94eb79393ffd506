#!lua flags=allow-oom
--! script   read_lock.release
--! version  1
--! keys     lock:hash tombstone:string
--! args     owner:str holds:int lease_ms:int channel:str tombstone_ms:int
--! returns  nil = not a reader | 0 = still held, by this reader or another | int > 0 = free, one more than the clients told
--! retry    safe: states the hold count to fall to; a repeated final release finds nothing

--! include lib.whole
--! include lib.reader_key
--! include lib.reader_keys
--! include lib.reader_left
--! include lib.needed_by_readers

-- Also the undo of an acquire; for tombstones see lock.release. The last reader frees the
-- lock, whatever fields dead readers have left in it. Otherwise the hash lives from now on
-- as long as the longest of the other leases, so that who leaves early keeps nobody waiting.
-- It takes a look at every reader to know that, so it is done only if the hash may have lived
-- for the one who leaves, and until another is found that needs it for about as long:
-- without that, 1000 readers that leave would cost half a million looks. How long a writer
-- that also reads needs it is not known here: then it is never shortened.
local lock, tombstone = KEYS[1], KEYS[2]
local owner, holds, lease_ms = ARGV[1], whole(ARGV[2], 0), whole(ARGV[3], 1)
local channel, tombstone_ms = ARGV[4], whole(ARGV[5], 0)

if not (holds and lease_ms and tombstone_ms) then
  return redis.error_reply('ERR holds, lease_ms and tombstone_ms must be whole numbers')
end

local mode, held = unpack(redis.call('HMGET', lock, 'mode', owner))
local count = whole(held or '0', 1) or 0
local reply = nil
if count == 1 and holds == 0 and mode == 'read' and redis.call('HLEN', lock) == 2 then
  -- Nobody else is in: no leases to look at.
  redis.call('DEL', lock, reader_key(lock, owner, 1))
  reply = 1 + redis.call('PUBLISH', channel, '0')
elseif held then
  if holds > 0 and count == 0 then
    return redis.error_reply('ERR the hold count in this hash is not a number')
  end
  local before, left = reader_left(lock, owner, count), redis.call('PTTL', lock)
  holds = math.min(holds, count)
  local reader_holds = reader_keys(lock, owner, holds + 1, count)
  for _, key in ipairs(reader_holds) do
    redis.call('DEL', key)
  end
  if holds == 0 then
    redis.call('HDEL', lock, owner)
  elseif holds < count then
    redis.call('HSET', lock, owner, holds)
  end
  reader_holds = reader_keys(lock, owner, 1, holds)
  for _, key in ipairs(reader_holds) do
    redis.call('SET', key, '1', 'PX', lease_ms)
  end
  reply = 0
  local enough = left < 0 and math.huge or math.max(1, left - 100)
  local needed_by_me = holds > 0 and lease_ms or 0
  if left < needed_by_me or before >= enough or redis.call('HLEN', lock) == 1 then
    local needed = math.max(needed_by_me, needed_by_readers(lock, enough))
    if mode == 'read' and needed == 0 then
      redis.call('DEL', lock)
      reply = 1 + redis.call('PUBLISH', channel, '0')
    elseif needed > left or (mode == 'read' and needed < enough) then
      redis.call('PEXPIRE', lock, needed)
    end
  end
elseif not mode then
  -- As Redisson: whoever waits for what ended by itself may look at once.
  redis.call('PUBLISH', channel, '0')
end
if tombstone_ms > 0 then
  redis.call('SET', tombstone, '1', 'PX', tombstone_ms)
end
return reply
