#!lua flags=allow-oom
--! script   fair_lock.release
--! version  10
--! keys     lock:hash tombstone:string queue:list timeouts:zset waiters:zset version_key:string
--! args     owner:str holds:int lease_ms:int wait_ms:int place:str channel:str tombstone_ms:int version:int version_ms:int
--! returns  nil = not the owner | 0 = still held, or superseded | int > 0 = free, one more than the clients told
--! retry    safe: states the hold count to fall to; a repeated final release finds nothing

-- As lock.release; also how a waiter leaves, which is the undo of its acquire; `place` as there. Its wait_ms is
-- taken off those behind it, as Redisson does; see fair_lock.acquire for the least they keep,
-- and
-- for the loop, which is spared where a long queue has no waiter of Redisson's. Whenever the lock
-- is free afterwards, the head of the queue is told, and nobody else: after a release that found
-- nothing too, because the message that the lock is free may have gone to a waiter that has just
-- left, or never been sent.
local lock, queue, timeouts, waiters = KEYS[1], KEYS[3], KEYS[4], KEYS[5]
local owner, holds, lease_ms = ARGV[1], ARGV[2], ARGV[3]
local wait_ms, place, tombstone_ms = ARGV[4], ARGV[5], ARGV[7]
local version, version_ms = ARGV[8], ARGV[9]

-- The short way, see fair_lock.acquire: a whole hold, and nobody waits, so nobody is told.
local held = redis.call('HGET', lock, owner)
local plain = held and holds == '0' and tombstone_ms == '0' and version == '0' and version_ms == '0'
  and #lease_ms < 16 and #wait_ms < 16
  and string.find(lease_ms .. ' ' .. wait_ms, '^[1-9]%d* [1-9]%d*$')
if plain and redis.call('EXISTS', queue, timeouts, waiters) == 0 then
  redis.call('DEL', lock)
  return 1
end

local tombstone, version_key, channel = KEYS[2], KEYS[6], ARGV[6]
--! include lib.whole
--! include lib.superseded
--! include lib.remember
--! include lib.now
--! include lib.living_head
--! include lib.needs_scores
--! include lib.ends_nearer
--! include lib.drop_dead
--! include lib.leave_fair
--! include lib.sooner

holds, lease_ms, wait_ms = whole(holds, 0), whole(lease_ms, 1), whole(wait_ms, 1)
tombstone_ms, version, version_ms = whole(tombstone_ms, 0), whole(version, 0), whole(version_ms, 0)

if not (holds and lease_ms and wait_ms and tombstone_ms and version and version_ms) then
  return redis.error_reply('ERR holds and times must be whole numbers')
end
if superseded(version_key, version) then
  return 0
end

local count = whole(held or '', 1)
if held and holds > 0 and not count then
  return redis.error_reply('ERR the hold count in this hash is not a number')
end
local waiter = place
if place == '1' then
  waiter = owner
end
local present, moment, queued, waited, exact, first, last = 0, false, false, false, false, false, false
if plain or holds == 0 and redis.call('EXISTS', queue, timeouts, waiters) > 0 then
  present = now()
  waited = redis.call('LLEN', queue) > 0
  moment = redis.call('ZSCORE', timeouts, waiter)
  queued = redis.call('ZSCORE', waiters, waiter) or moment
    or tombstone_ms > 0 and redis.call('LPOS', queue, waiter)
  if queued then
    exact = needs_scores(timeouts, waiters, present)
    first = redis.call('LINDEX', queue, 0) == waiter
    last = redis.call('LINDEX', queue, -1) == waiter
  end
end

local final = held and holds == 0
local left = waited and (final and -2 or redis.call('PTTL', lock))
local head, dies, dead, saved, unknown = nil, nil, {}, 0, false
local reply = held and 0 or nil
local tells = nil
if left == -2 then
  head, dies, dead, saved, unknown = living_head(queue, timeouts, waiters, present, nil, waiter)
  tells = head
elseif left and left >= 0 and first then
  -- The new head may know nothing of this lease, and ask again only after its end.
  local next_head, next_dies, _, _, _, ours = living_head(queue, timeouts, waiters, present, nil, waiter)
  tells = ours and 3 * left < next_dies - present and next_head
end
local told = 0
if tells then
  local head_channel = channel .. ':' .. tells
  told = redis.call('PUBLISH', head_channel, '0')
end
if held and holds > 0 and sooner(lock, lease_ms) then
  local first_one, _ = living_head(queue, timeouts, waiters, now())
  if first_one then
    local first_channel = channel .. ':' .. first_one
    redis.call('PUBLISH', first_channel, '0')
  end
end
remember(tombstone, '1', tombstone_ms)
remember(version_key, version, version > 0 and version_ms or 0)

if final then
  redis.call('DEL', lock)
  reply = 1 + told
elseif held then
  local removed = count - math.min(count, holds)
  if removed > 0 then
    -- Removes nothing: see lib/remember.
    redis.call('HDEL', lock, '')
    redis.call('HINCRBY', lock, owner, string.format('%.0f', 0 - removed))
  end
  local refused = redis.pcall('PEXPIRE', lock, string.format('%.0f', lease_ms))
  if type(refused) == 'table' then
    redis.call('HINCRBY', lock, owner, string.format('%.0f', removed))
    return refused
  end
end
if queued then
  leave_fair(queue, timeouts, waiters, waiter, exact, present + lease_ms, wait_ms, last and moment or nil)
end
if unknown then
  redis.call('ZADD', timeouts, string.format('%.0f', dies), head)
end
drop_dead(queue, timeouts, waiters, present, dead, saved)
return reply
