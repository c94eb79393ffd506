#!lua flags=allow-oom
--! script   lock.release
--! version  1
--! keys     lock:hash tombstone:string
--! args     owner:str holds:int lease_ms:int channel:str tombstone_ms:int
--! returns  nil = not the owner | 0 = still held | int > 0 = free, one more than the clients told
--! retry    safe: states the hold count to fall to; a repeated final release finds nothing

--! include lib.whole

-- Also the undo of an acquire: fall to the count that was held before it. With
-- tombstone_ms the owner is declared gone, so that an acquire still on its way
-- is refused. The tombstone is written last: below Redis 7 a full server takes
-- it only in a script that has written already.
local lock, tombstone = KEYS[1], KEYS[2]
local owner, holds, lease_ms = ARGV[1], whole(ARGV[2], 0), whole(ARGV[3], 1)
local channel, tombstone_ms = ARGV[4], whole(ARGV[5], 0)

if not (holds and lease_ms and tombstone_ms) then
  return redis.error_reply('ERR holds, lease_ms and tombstone_ms must be whole numbers')
end

local held = redis.call('HGET', lock, owner)
local reply = nil
if held and holds == 0 then
  redis.call('DEL', lock)
  reply = 1 + redis.call('PUBLISH', channel, '0')
elseif held then
  if not whole(held, 1) then
    return redis.error_reply('ERR the hold count in this hash is not a number')
  end
  if whole(held, 1) > holds then
    redis.call('HINCRBY', lock, owner, holds - whole(held, 1))
  end
  redis.call('PEXPIRE', lock, lease_ms)
  reply = 0
end
if tombstone_ms > 0 then
  redis.call('SET', tombstone, '1', 'PX', tombstone_ms)
end
return reply
