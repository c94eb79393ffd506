-- Takes a client out of the queue: it got what it waited for, or gave up. If it was one of the
-- first two, another one is the second now, and is to know. Returns what Redis answers, which may be
-- an error. A grant comes before this: behind another write a full server would not refuse it.
local function leave_queue(clients, channel, client)
  local first = front(clients)
  if (first[1] == client or first[2] == client) and first[3] then
    local own = channel .. ':' .. first[3]
    redis.pcall('PUBLISH', own, '2')
  end
  return redis.pcall('ZREM', clients, client, '>' .. client)
end
