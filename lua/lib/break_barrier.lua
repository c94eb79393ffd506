-- Breaks a barrier until `ends_ms`, a moment of the server's clock, or without it until it is
-- reset. Current waiters learn of it when they look again, because their generation is gone;
-- later arrivals by the field. The message comes first because it may be refused, then what frees
-- memory, so that a full server below Redis 7 takes the rest.
local function break_barrier(barrier, arrivals, channel, ends_ms)
  redis.call('PUBLISH', channel, '0')
  redis.call('DEL', barrier, arrivals)
  redis.call('HSET', barrier, 'broken', '1')
  if ends_ms then
    redis.call('PEXPIREAT', barrier, string.format('%.0f', ends_ms))
  end
end
