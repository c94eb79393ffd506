--! script   lock.inspect
--! version  4
--! keys     lock:hash clients:zset
--! args
--! returns  array: milliseconds left (-2 = free, -1 = no lease), how many words follow for the holder, then its owner and hold count in turn, then of each client that waits, in order, its name, ms since it joined, and ms since it was called (-1 = it was not)
--! retry    safe: reads only

--! include lib.add_waiting

local lock, clients = KEYS[1], KEYS[2]

local found = redis.call('HGETALL', lock)
table.insert(found, 1, #found)
table.insert(found, 1, redis.call('PTTL', lock))
add_waiting(found, clients)
return found
