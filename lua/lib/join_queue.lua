-- Puts a client at the end of the queue, unless it is there; returns how many are before it. One
-- that was called has answered by asking. Where joining is refused the client counts as the first,
-- because then nobody will call it.
local function join_queue(clients, client)
  local time = redis.call('TIME')
  local joined = string.format('%.0f', time[1] * 1000000 + time[2])
  redis.call('ZREM', clients, '>' .. client)
  local refused = redis.pcall('ZADD', clients, 'NX', joined, client)
  if type(refused) == 'table' then
    return 0
  end
  redis.pcall('PEXPIRE', clients, '60000')
  local _, _, called = front(clients)
  return redis.call('ZRANK', clients, client) - (called and 1 or 0)
end
