--! script   lock.inspect
--! version  1
--! keys     lock:hash
--! args
--! returns  array: milliseconds left (-2 = free, -1 = no lease), then owner and hold count in turn
--! retry    safe: reads only

local lock = KEYS[1]

local found = redis.call('HGETALL', lock)
table.insert(found, 1, redis.call('PTTL', lock))
return found
