#!lua flags=allow-oom
--! script   barrier.leave
--! version  4
--! keys     barrier:hash arrivals:zset released:zset arrival:string
--! args     owner:str channel:str lease_ms:int receipt_ms:int
--! returns  int >= 0 = nothing to leave: released, and this was its position | -1 = it does not wait
--! retry    safe: an owner that has left does not wait; a repetition finds that

--! include lib.whole
--! include lib.now
--! include lib.barrier_state
--! include lib.break_barrier

-- The undo of an arrival: a party that leaves while others wait breaks the barrier for them, for at
-- least one lease. The owner is declared gone, so that an arrival still on its way is refused.
local barrier, arrivals, released, arrival = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, channel, lease_ms, receipt_ms = ARGV[1], ARGV[2], whole(ARGV[3], 1), whole(ARGV[4], 1)

if not (lease_ms and receipt_ms) then
  return redis.error_reply('ERR lease_ms and receipt_ms must be positive integers')
end
local ms = now()
local given = redis.call('GET', arrival) or ''
local generation, position = string.match(given, '^(%d+) (%d+)$')
local state = barrier_state(barrier)
local last = redis.call('ZRANGE', arrivals, -1, -1, 'WITHSCORES')
if redis.call('ZSCORE', released, generation or '0') then
  return tonumber(position)
end
if not state then
  return redis.error_reply('ERR the hash at the key of this barrier is not a barrier')
end

-- After the last end of all there is nobody to break it for.
local latest = tonumber(last[2] or 0)
if latest > ms and redis.call('ZSCORE', arrivals, owner) then
  break_barrier(barrier, arrivals, channel, math.max(latest, ms + lease_ms))
end
local life = string.format('%.0f', receipt_ms)
-- For PEXPIRE see lib/remember.
redis.call('PEXPIRE', arrival, life)
redis.call('SET', arrival, 'void', 'PX', life)
return -1
