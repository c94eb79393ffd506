#!lua flags=allow-oom
--! script   fair_lock.release
--! version  2
--! keys     lock:hash tombstone:string queue:list timeouts:zset waiters:zset
--! args     owner:str holds:int lease_ms:int wait_ms:int channel:str tombstone_ms:int
--! returns  nil = not the owner | 0 = still held | int > 0 = free, one more than the clients told
--! retry    safe: states the hold count to fall to; a repeated final release finds nothing

--! include lib.whole
--! include lib.now
--! include lib.living_head

-- As lock.release; also how a waiter leaves, which is the undo of its acquire. Its wait_ms is
-- taken off those behind it, as Redisson does; see fair_lock.acquire for the least they keep,
-- and for the loop. Whenever the lock is free afterwards, the head of the queue is told, and
-- nobody else: after a release that found nothing too, because the message that the lock is
-- free may have gone to one who has just left, or never been sent.
local lock, tombstone, queue, timeouts, waiters = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local owner, holds, lease_ms = ARGV[1], whole(ARGV[2], 0), whole(ARGV[3], 1)
local wait_ms, channel, tombstone_ms = whole(ARGV[4], 1), ARGV[5], whole(ARGV[6], 0)

if not (holds and lease_ms and wait_ms and tombstone_ms) then
  return redis.error_reply('ERR holds and times must be whole numbers')
end

local held = redis.call('HGET', lock, owner)
if held and holds > 0 and not whole(held, 1) then
  return redis.error_reply('ERR the hold count in this hash is not a number')
end
local queued, waited, place = false, false, false
if holds == 0 and redis.call('EXISTS', queue, timeouts, waiters) > 0 then
  -- Read before the first write, so that a key of another type is an error that changes nothing.
  waited = redis.call('LLEN', queue) > 0
  queued = redis.call('ZSCORE', timeouts, owner)
  queued = redis.call('ZSCORE', waiters, owner) or queued
  place = (queued or tombstone_ms > 0) and redis.call('LPOS', queue, owner)
  queued = queued or place
end

local reply = nil
if held and holds == 0 then
  redis.call('DEL', lock)
  reply = 1
elseif held then
  if whole(held, 1) > holds then
    redis.call('HINCRBY', lock, owner, holds - whole(held, 1))
  end
  redis.call('PEXPIRE', lock, lease_ms)
  reply = 0
end

local present = (queued or waited) and now()
if queued then
  -- Below Redis 7 a full server takes the others only after one that needs no memory.
  redis.call('ZREM', timeouts, owner)
  local behind = place and redis.call('LRANGE', queue, place + 1, -1) or {}
  redis.call('ZREM', waiters, owner)
  redis.call('LREM', queue, 0, owner)
  local ours, moments, nearer = {}, {}, {}
  local living = redis.call('ZRANGE', waiters, 0, -1)
  for _, member in ipairs(living) do
    ours[member] = 300000
  end
  local scores = redis.call('ZRANGE', timeouts, 0, -1, 'WITHSCORES')
  for i, member in ipairs(scores) do
    moments[member] = tonumber(scores[i + 1])
  end
  for i, member in ipairs(behind) do
    local score = math.min(moments[member] or 0, 9007199254740991)
    local least = present + lease_ms + (ours[member] or 0)
    if score > least then
      nearer[#nearer + 1] = string.format('%.0f', math.max(score - wait_ms, least))
      nearer[#nearer + 1] = member
    end
    if #nearer == 2000 or i == #behind and #nearer > 0 then
      redis.call('ZADD', timeouts, unpack(nearer))
      nearer = {}
    end
  end
end
local left = waited and redis.call('PTTL', lock)
local head, dies = nil, nil
if left == -2 then
  head = living_head(queue, timeouts, waiters, present)
elseif left and left >= 0 and place == 0 then
  -- The new head may know nothing of this lease, and ask again only after its end.
  head = redis.call('LINDEX', queue, 0)
  dies = head and redis.call('ZSCORE', waiters, head)
  head = dies and 3 * left < tonumber(dies) - present and head
end
if head then
  local line = channel .. ':' .. head
  local told = redis.call('PUBLISH', line, '0')
  reply = reply and reply + told
end
if tombstone_ms > 0 then
  redis.call('SET', tombstone, '1', 'PX', tombstone_ms)
end
return reply
