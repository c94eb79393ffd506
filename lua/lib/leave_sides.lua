-- As leave_queue, for the queue of a read-write lock. Returns what Redis answers: 2 if the client
-- was called. A reader that was called need not tell another one: that was called too.
local function leave_sides(clients, channel, client)
  local first = sides_front(clients)
  local removed = redis.pcall('ZREM', clients, client, '>' .. client)
  local second = (first[1] == client or first[2] == client) and first[3]
  if second and not (removed == 2 and string.sub(client, -5) == ':read' and string.sub(second, -5) == ':read') then
    local own = channel .. ':' .. second
    redis.pcall('PUBLISH', own, '2')
  end
  return removed
end
