-- Calls the first of the clients that wait, on a channel of its own; returns it, or nil. Who does
-- not hear it is gone, and leaves the queue. A `client` that asks need not be called. `mark_called`
-- follows, behind the writes that must not fail.
local function call_next(clients, channel, client)
  local waiting = redis.call('ZCARD', clients)
  for _ = 1, waiting do
    local first = front(clients)[1]
    if not first or first == client then
      return first
    end
    local own = channel .. ':' .. first
    if redis.call('PUBLISH', own, '0') > 0 then
      return first
    end
    redis.call('ZREM', clients, first, '>' .. first)
  end
  return nil
end
