--! script   fair_lock.inspect
--! version  1
--! keys     lock:hash queue:list
--! args
--! returns  array: milliseconds left (-2 = free, -1 = no lease), how many words follow for the holder, then its owner and hold count in turn, then the owners that wait, in order
--! retry    safe: reads only

local lock, queue = KEYS[1], KEYS[2]

local found = redis.call('HGETALL', lock)
local words = #found
local waiting = redis.call('LRANGE', queue, 0, -1)
for _, owner in ipairs(waiting) do
  found[#found + 1] = owner
end
table.insert(found, 1, words)
table.insert(found, 1, redis.call('PTTL', lock))
return found
