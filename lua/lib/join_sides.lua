-- As join_queue, for a read-write lock. A writer that goes before readers joins before all of them:
-- see sides_front.
local function join_sides(clients, client, prefers)
  local time = redis.call('TIME')
  local joined = time[1] * 1000000 + time[2] - (prefers and 1500000000000000 or 0)
  redis.call('ZREM', clients, '>' .. client)
  local refused = redis.pcall('ZADD', clients, 'NX', string.format('%.0f', joined), client)
  if type(refused) == 'table' then
    return 0
  end
  redis.pcall('PEXPIRE', clients, '60000')
  local notes = redis.call('ZCOUNT', clients, '-inf', '(0')
  return redis.call('ZRANK', clients, client) - notes
end
