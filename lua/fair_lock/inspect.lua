--! script   fair_lock.inspect
--! version  2
--! keys     lock:hash queue:list timeouts:zset waiters:zset
--! args
--! returns  array: milliseconds left (-2 = free, -1 = no lease), how many words follow for the holder, then its owner and hold count in turn, then the owners that wait and live, in order
--! retry    safe: reads only

--! include lib.now

-- For who is dead see lib/living_head.
local lock, queue, timeouts, waiters = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

local found = redis.call('HGETALL', lock)
local words = #found
local waiting = redis.call('LRANGE', queue, 0, -1)
local last, dead = string.format('%.0f', now()), {}
local late = redis.call('ZRANGEBYSCORE', timeouts, '-inf', last)
for _, owner in ipairs(late) do
  dead[owner] = not redis.call('ZSCORE', waiters, owner)
end
late = redis.call('ZRANGEBYSCORE', waiters, '-inf', last)
for _, owner in ipairs(late) do
  dead[owner] = true
end
for _, owner in ipairs(waiting) do
  if not dead[owner] then
    found[#found + 1] = owner
  end
end
table.insert(found, 1, words)
table.insert(found, 1, redis.call('PTTL', lock))
return found
