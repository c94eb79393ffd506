-- Calls the first of the clients that wait, on a channel of its own; returns it, or nil. Who does
-- not hear it is gone, and leaves the queue: then another one is the second, and is to know. A
-- `client` that asks need not be called. `mark_called` follows, behind the writes that must not
-- fail. Where one of these commands is not permitted nobody is noted as called, and the first two
-- look. Many may be dead: behind the first, a hundred are read and removed at once.
local function call_next(clients, channel, client)
  local waiting = tonumber(redis.pcall('ZCARD', clients)) or 0
  for i = 1, waiting do
    local some = redis.pcall('ZRANGE', clients, '0', i == 1 and '1' or '99')
    local dead, told, next_one = {}, 0, nil
    for n, member in ipairs(some) do
      -- The first entry may be a note: see front.
      if n > 1 or string.sub(member, 1, 1) ~= '>' then
        local own = channel .. ':' .. member
        told = member == client or tonumber(redis.pcall('PUBLISH', own, '0'))
        if told ~= 0 then
          next_one = told and member
          break
        end
        dead[#dead + 1] = member
        dead[#dead + 1] = '>' .. member
      end
    end
    if dead[1] and type(redis.pcall('ZREM', clients, unpack(dead))) == 'table' then
      return nil
    end
    if told ~= 0 or not dead[1] then
      local second = next_one and next_one ~= client and (i > 1 or dead[1]) and front(clients)[2]
      if second then
        local own = channel .. ':' .. second
        redis.pcall('PUBLISH', own, '2')
      end
      return next_one
    end
  end
  return nil
end
