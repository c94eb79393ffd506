--! script   election.acquire
--! version  2
--! keys     lock:hash tombstone:string queue:list timeouts:zset waiters:zset token:string
--! args     owner:str lease_ms:int wait_ms:int alive_ms:int place:str channel:str needs:str value:str announced:str idle_ms:int
--! returns  array = granted: its token | int >= 0 = busy, milliseconds after which asking again can help | -1 = busy, no lease | -3 = void
--! retry    safe: a leader keeps its token and its value, and an owner stands in the queue once

-- fair_lock.acquire, with the same queue, for an owner that asks for one hold. A grant has a fencing
-- token as fenced_lock.acquire gives it, and writes it and the value of the leader beside the
-- owner, in the same hash: so they end with the lease, and whatever frees the lock takes them along.
-- Those that observe hear of it on the channel `announced`.
local lock, tombstone, queue, timeouts, waiters = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token, owner, place, channel = KEYS[6], ARGV[1], ARGV[5], ARGV[6]
local needs, value, announced = ARGV[7], ARGV[8], ARGV[9]

if needs ~= '' then
--! include lib.lacks
  local refused = lacks(needs, lock)
  if refused then
    return refused
  end
end

--! include lib.whole
--! include lib.now
--! include lib.living_head
--! include lib.needs_scores
--! include lib.ends_nearer
--! include lib.drop_dead
--! include lib.leave_head
--! include lib.join_fair

local lease_ms, wait_ms, alive_ms = whole(ARGV[2], 1), whole(ARGV[3], 1), whole(ARGV[4], 1)
local idle_ms = whole(ARGV[10], 0)

if not (lease_ms and wait_ms and alive_ms and idle_ms) then
  return redis.error_reply('ERR lease_ms, wait_ms, alive_ms and idle_ms must be whole numbers')
end

local counter = redis.call('GET', token)
local last = whole(counter or '0', 0)
if not last then
  return redis.error_reply('ERR the token is not a number')
end
local time = redis.call('TIME')
local first = math.max(last + 1, time[1] * 1000000 + time[2])
if first >= 9007199254740992 then
  return redis.error_reply('ERR the token counter is used up: greater numbers are not exact')
end

local function take()
  local issued = string.format('%.0f', first)
  if idle_ms > 0 then
    redis.call('SET', token, issued, 'PX', string.format('%.0f', lease_ms + idle_ms))
  else
    redis.call('SET', token, issued)
  end
  redis.call('HSET', lock, owner, '1', 'token', issued, 'value', value)
  local refused = redis.pcall('PEXPIRE', lock, string.format('%.0f', lease_ms))
  if type(refused) == 'table' then
    -- Not permitted: without a lease it would be held for ever.
    redis.call('DEL', lock)
    return refused
  end
  return {first}
end

if redis.call('HEXISTS', lock, owner) == 1 then
  local own = whole(redis.call('HGET', lock, 'token') or '', 1)
  if not own then
    return redis.error_reply('ERR the token of this leader is not a number')
  end
  -- Never shorten what it was told; written all the same, for the replicas that confirm.
  local left = redis.call('PTTL', lock)
  redis.call('PEXPIRE', lock, string.format('%.0f', math.max(left, lease_ms)))
  return {own}
end
-- A late acquire is refused while it is busy too: it would queue.
if redis.call('EXISTS', tombstone) == 1 then
  return -3
end

local present, waiter = now(), place
if place == '1' then
  waiter = owner
end
-- Read before the first write, so that a key of another type is an error that changes nothing.
redis.call('LLEN', queue)
local moment = redis.call('ZSCORE', timeouts, waiter)
local known = redis.call('ZSCORE', waiters, waiter)

local left = redis.call('PTTL', lock)
local free = left == -2
if free then
  local head, dies, dead, saved, unknown = living_head(queue, timeouts, waiters, present, waiter)
  local granted = not head or head == waiter
  local tells = #dead > 0 and head
  if granted then
    local next_one, next_dies, ours, _ = nil, nil, nil, nil
    if head then
      next_one, next_dies, _, _, _, ours = living_head(queue, timeouts, waiters, present, nil, waiter)
    end
    -- The new head would ask too late, if nobody releases: have it ask how long this lease is.
    tells = ours and 3 * lease_ms < next_dies - present and next_one
    redis.call('PUBLISH', announced, '0')
  end
  if tells then
    -- Else the message that it is free went to one of the dead.
    local head_channel = channel .. ':' .. tells
    redis.call('PUBLISH', head_channel, '0')
  end
  if unknown and not granted then
    redis.call('ZADD', timeouts, string.format('%.0f', dies), head)
  end
  drop_dead(queue, timeouts, waiters, present, dead, saved)
  if granted then
    local exact = head and needs_scores(timeouts, waiters, present)
    local taken = take()
    if taken.err then
      return taken
    end
    leave_head(queue, timeouts, waiters, waiter, head, exact, present + lease_ms, wait_ms)
    return taken
  end
  local head_dies = redis.call('ZSCORE', waiters, head) or redis.call('ZSCORE', timeouts, head)
  dies = math.min(tonumber(head_dies or dies), 9007199254740991)
  left = math.max(1, dies - present)
end

if place ~= '0' then
  return join_fair(queue, timeouts, waiters, waiter, {
    moment = moment, known = known, present = present, alive_ms = alive_ms, wait_ms = wait_ms,
    left = left, free = free,
  })
end
return left
