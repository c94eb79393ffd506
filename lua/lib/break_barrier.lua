-- Breaks a barrier: who waits at it learns so when it looks again, and so does who comes, until
-- it is reset. What frees memory comes first: then a full server below Redis 7 takes the rest.
local function break_barrier(barrier, arrivals, channel)
  redis.call('DEL', arrivals)
  redis.call('HSET', barrier, 'broken', '1')
  redis.call('PUBLISH', channel, '0')
end
