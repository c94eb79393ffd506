-- Calls the first of the clients that wait, on a channel of its own; returns it, or nil. Who does
-- not hear it is gone, and leaves the queue: then another one is the second, and is to know. A
-- `client` that asks need not be called. `mark_called` follows, behind the writes that must not
-- fail. Where one of these commands is not permitted nobody is called, and the first two look.
local function call_next(clients, channel, client)
  local waiting = tonumber(redis.pcall('ZCARD', clients)) or 0
  for i = 1, waiting do
    local first = front(clients)[1]
    if not first or first == client then
      return first
    end
    local own = channel .. ':' .. first
    local told = tonumber(redis.pcall('PUBLISH', own, '0'))
    if not told then
      return nil
    end
    local second = told > 0 and i > 1 and front(clients)[2]
    if second then
      own = channel .. ':' .. second
      redis.pcall('PUBLISH', own, '2')
    end
    if told > 0 then
      return first
    end
    if type(redis.pcall('ZREM', clients, first, '>' .. first)) == 'table' then
      return nil
    end
  end
  return nil
end
