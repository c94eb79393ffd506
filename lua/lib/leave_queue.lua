-- Takes a client out of the queue: it got what it waited for, or gave up. If it was one of the
-- first two, another one is the second now, and is to know.
local function leave_queue(clients, channel, client)
  local first = front(clients)
  if (first[1] == client or first[2] == client) and first[3] then
    local own = channel .. ':' .. first[3]
    redis.pcall('PUBLISH', own, '2')
  end
  redis.call('ZREM', clients, client, '>' .. client)
end
