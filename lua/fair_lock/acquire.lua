--! script   fair_lock.acquire
--! version  9
--! keys     lock:hash tombstone:string queue:list timeouts:zset waiters:zset version_key:string
--! args     owner:str holds:int lease_ms:int wait_ms:int alive_ms:int place:str channel:str version:int version_ms:int needs:str
--! returns  nil = granted | int >= 0 = busy, milliseconds after which asking again can help | -1 = busy, no lease | -2 = lost | -3 = void
--! retry    safe: states the hold count it wants, and an owner stands in the queue once

-- Redisson's fair lock: the lock is lock.acquire's, and owners that wait stand in the list
-- `queue`. In `timeouts` each has the moment after which Redisson takes it for dead when it is
-- the head: that of its predecessor, or the end of the lease, and wait_ms on top. Who acquires
-- takes its own wait_ms off everybody behind. These loops over the queue are Redisson's layout.
--
-- Redisson forgets that who waits longer than that may be alive, and who died is not missed
-- sooner. So this toolkit's waiters are in `waiters` too: alive for alive_ms from the last
-- time they asked, which they do three times in that time. Asking also moves their moment outward: 300 s, which is what one of
-- Redisson's may take off, and then as long as until they ask again. For the same reason we
-- take nothing off that brings one of ours below that. `waiters` expires when all its moments
-- have passed; by then Redisson's rule tells the truth.
--
-- Only the first asks again when the lease ends. Who waits behind another of this toolkit's is told
-- when that one can be found dead: should the lock be free by then, nobody else would look. Behind
-- one of Redisson's it is told the sooner of the two, because nobody tells it of that one's lease.
--
-- With place = 0 nothing but the answer is wanted: no place in the queue. With 1 an owner waits
-- under its own name, else under the name that `place` is: one on whose channel its client still
-- listens from an earlier wait, so that it need not subscribe again.
local lock, tombstone, queue, timeouts, waiters = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local owner, holds, lease_ms = ARGV[1], ARGV[2], ARGV[3]
local wait_ms, alive_ms, place = ARGV[4], ARGV[5], ARGV[6]
local version, version_ms, needs = ARGV[8], ARGV[9], ARGV[10]

if needs ~= '' then
--! include lib.lacks
  local refused = lacks(needs, lock)
  if refused then
    return refused
  end
end

-- The short way: a new owner, a free lock, and nobody waits. It comes before the functions, and
-- looks at all numbers at once, because each of these costs nearly as much as a command.
local plain = holds == '1' and version == '0' and version_ms == '0'
  and #lease_ms < 16 and #wait_ms < 16 and #alive_ms < 16
  and string.find(lease_ms .. ' ' .. wait_ms .. ' ' .. alive_ms, '^[1-9]%d* [1-9]%d* [1-9]%d*$')
if plain and redis.call('EXISTS', lock, tombstone, queue, timeouts, waiters) == 0 then
  redis.call('HINCRBY', lock, owner, '1')
  local done = redis.pcall('PEXPIRE', lock, lease_ms)
  if done == 1 then
    return nil
  end
  -- Not permitted: without a lease it would be held for ever.
  redis.call('DEL', lock)
  return done
end

local version_key, channel = KEYS[6], ARGV[7]
--! include lib.whole
--! include lib.superseded
--! include lib.now
--! include lib.living_head
--! include lib.needs_scores
--! include lib.ends_nearer
--! include lib.drop_dead
--! include lib.leave_head
--! include lib.join_fair

holds, lease_ms = whole(holds, 1), whole(lease_ms, 1)
wait_ms, alive_ms = whole(wait_ms, 1), whole(alive_ms, 1)
version, version_ms = whole(version, 0), whole(version_ms, 0)

if not (holds and lease_ms and wait_ms and alive_ms and version and version_ms) then
  return redis.error_reply('ERR holds and times must be whole numbers')
end
if superseded(version_key, version) then
  return -3
end

local function take()
  if version > 0 and version_ms > 0 then
    redis.call('SET', version_key, string.format('%.0f', version), 'PX', string.format('%.0f', version_ms))
  end
  redis.call('HINCRBY', lock, owner, 1)
  local refused = redis.pcall('PEXPIRE', lock, string.format('%.0f', lease_ms))
  if type(refused) == 'table' then
    -- Not permitted: without a lease it would be held for ever.
    redis.call('DEL', lock)
    return refused
  end
  return nil
end

local asked = plain or holds > 1
if not asked and redis.call('EXISTS', lock, tombstone, queue, timeouts, waiters) == 0 then
  return take()
end

local held = redis.call('HGET', lock, owner)
if held then
  local count = whole(held, 1)
  if not count then
    return redis.error_reply('ERR the hold count in this hash is not a number')
  end
  local left = redis.call('PTTL', lock)
  local added = math.max(count, holds) - count
  if version > 0 and version_ms > 0 then
    redis.call('SET', version_key, string.format('%.0f', version), 'PX', string.format('%.0f', version_ms))
  end
  redis.call('HINCRBY', lock, owner, string.format('%.0f', added))
  -- Never shorten what an outer hold of the same owner relies on.
  local refused = left < lease_ms and redis.pcall('PEXPIRE', lock, string.format('%.0f', lease_ms))
  if type(refused) == 'table' then
    redis.call('HINCRBY', lock, owner, string.format('%.0f', count - math.max(count, holds)))
    return refused
  end
  return nil
end
if holds > 1 then
  return -2
end
-- Unlike a plain lock's, a late acquire is refused while the lock is busy too: it would queue.
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
  end
  if tells then
    -- Else the message that the lock is free went to one of the dead.
    local head_channel = channel .. ':' .. tells
    redis.call('PUBLISH', head_channel, '0')
  end
  if unknown and not granted then
    redis.call('ZADD', timeouts, string.format('%.0f', dies), head)
  end
  drop_dead(queue, timeouts, waiters, present, dead, saved)
  if granted then
    local exact = head and needs_scores(timeouts, waiters, present)
    local refused = take()
    if refused then
      return refused
    end
    leave_head(queue, timeouts, waiters, waiter, head, exact, present + lease_ms, wait_ms)
    return nil
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
