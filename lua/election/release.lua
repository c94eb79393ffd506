#!lua flags=allow-oom
--! script   election.release
--! version  2
--! keys     lock:hash tombstone:string queue:list timeouts:zset waiters:zset
--! args     owner:str lease_ms:int wait_ms:int place:str channel:str tombstone_ms:int announced:str
--! returns  nil = not the leader | int > 0 = free, one more than the clients told
--! retry    safe: ends the hold of its owner only; a repetition finds nothing

-- As fair_lock.release, for a whole hold: also how a candidate leaves, which is the undo of its
-- acquire. Those that observe hear that nobody leads.
local lock, tombstone, queue, timeouts, waiters = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local owner, place, channel, announced = ARGV[1], ARGV[4], ARGV[5], ARGV[7]
--! include lib.whole
--! include lib.remember
--! include lib.now
--! include lib.living_head
--! include lib.needs_scores
--! include lib.ends_nearer
--! include lib.drop_dead
--! include lib.leave_fair

local lease_ms, wait_ms, tombstone_ms = whole(ARGV[2], 1), whole(ARGV[3], 1), whole(ARGV[6], 0)

if not (lease_ms and wait_ms and tombstone_ms) then
  return redis.error_reply('ERR lease_ms, wait_ms and tombstone_ms must be whole numbers')
end

local held = redis.call('HEXISTS', lock, owner) == 1
local waiter = place
if place == '1' then
  waiter = owner
end
local present, moment, queued, waited, exact, last = 0, false, false, false, false, false
local first = false
if redis.call('EXISTS', queue, timeouts, waiters) > 0 then
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

local left = waited and (held and -2 or redis.call('PTTL', lock))
local head, dies, dead, saved, unknown = nil, nil, {}, 0, false
local tells = nil
if left == -2 then
  head, dies, dead, saved, unknown = living_head(queue, timeouts, waiters, present, nil, waiter)
  tells = head
elseif left and left >= 0 and first then
  -- The new head may know nothing of this lease, and ask again only after its end.
  local next_head, next_dies, _, _, _, ours = living_head(queue, timeouts, waiters, present, nil, waiter)
  tells = ours and 3 * left < next_dies - present and next_head
end
if held then
  redis.call('PUBLISH', announced, '0')
end
local told = 0
if tells then
  local head_channel = channel .. ':' .. tells
  told = redis.call('PUBLISH', head_channel, '0')
end
remember(tombstone, '1', tombstone_ms)
if held then
  redis.call('DEL', lock)
end
if queued then
  leave_fair(queue, timeouts, waiters, waiter, exact, present + lease_ms, wait_ms, last and moment or nil)
end
if unknown then
  redis.call('ZADD', timeouts, string.format('%.0f', dies), head)
end
drop_dead(queue, timeouts, waiters, present, dead, saved)
return held and 1 + told or nil
