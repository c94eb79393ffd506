-- As sooner_for, for a read-write lock, with the message that Redisson's clients and older ones of
-- ours get.
local function sooner_for_sides(clients, channel, message)
  redis.call('PUBLISH', channel, message)
  local first = sides_front(clients)
  for i = 1, 2 do
    if first[i] then
      local own = channel .. ':' .. first[i]
      redis.pcall('PUBLISH', own, '0')
    end
  end
end
