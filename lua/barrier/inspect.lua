--! script   barrier.inspect
--! version  1
--! keys     barrier:hash arrivals:zset
--! args
--! returns  array: 1 = broken | 0, generation (0 = none), parties, present ms, then who waits and until when
--! retry    safe: reads only

-- A party whose arrival has ended has broken the barrier, though nobody has noticed yet.
local barrier, arrivals = KEYS[1], KEYS[2]

local time = redis.call('TIME')
local ms = time[1] * 1000 + math.floor(time[2] / 1000)
local state = redis.call('HMGET', barrier, 'generation', 'parties', 'broken')
local waiting = redis.call('ZRANGE', arrivals, 0, -1, 'WITHSCORES')
local died = waiting[2] and tonumber(waiting[2]) <= ms
if not state[1] or state[3] or died then
  waiting = {}
end
table.insert(waiting, 1, (state[3] or (state[1] and died)) and 1 or 0)
table.insert(waiting, 2, tonumber(state[1] or 0))
table.insert(waiting, 3, tonumber(state[2] or 0))
table.insert(waiting, 4, ms)
return waiting
