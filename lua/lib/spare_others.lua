-- Refuses, with WRONGTYPE, to delete what is not the counters of a rate limiter.
local function spare_others(value, client_value, permits, client_permits)
  redis.call('GET', value)
  redis.call('GET', client_value)
  redis.call('ZCARD', permits)
  redis.call('ZCARD', client_permits)
end
