-- As sooner_for, for a read-write lock: tells the first two of the clients that wait. Redisson's
-- were told, and older ones of ours.
local function sooner_for_sides(clients, channel)
  local first = sides_front(clients)
  for i = 1, 2 do
    if first[i] then
      local own = channel .. ':' .. first[i]
      redis.pcall('PUBLISH', own, '0')
    end
  end
end
