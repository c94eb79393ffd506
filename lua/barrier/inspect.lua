--! script   barrier.inspect
--! version  3
--! keys     barrier:hash arrivals:zset
--! args     entries:int
--! returns  array: 1 = broken | 0, generation (0 = none), parties, present ms, how many wait, then owner and end of some
--! retry    safe: reads only

--! include lib.whole
--! include lib.now
--! include lib.barrier_state

-- Lists at most `entries` of the parties that wait, those whose arrival ends first. A party whose
-- arrival has ended has broken the barrier, even if nobody has noticed; when all have ended, the
-- barrier is fresh.
local barrier, arrivals = KEYS[1], KEYS[2]
local entries = whole(ARGV[1], 0)

if not entries then
  return redis.error_reply('ERR entries must be a whole number')
end
local ms = now()
local state = barrier_state(barrier)
local first = redis.call('ZRANGE', arrivals, 0, 0, 'WITHSCORES')
local last = redis.call('ZRANGE', arrivals, -1, -1, 'WITHSCORES')
if not state then
  return redis.error_reply('ERR the hash at the key of this barrier is not a barrier')
end
if not state[1] or state[3] or not last[2] or tonumber(last[2]) <= ms then
  return {state[3] and 1 or 0, 0, 0, ms, 0}
end
if tonumber(first[2]) <= ms then
  return {1, 0, 0, ms, 0}
end
local limit = string.format('%.0f', entries - 1)
local reply = entries > 0 and redis.call('ZRANGE', arrivals, 0, limit, 'WITHSCORES') or {}
table.insert(reply, 1, 0)
table.insert(reply, 2, tonumber(state[1]))
table.insert(reply, 3, tonumber(state[2] or 0))
table.insert(reply, 4, ms)
table.insert(reply, 5, redis.call('ZCARD', arrivals))
return reply
