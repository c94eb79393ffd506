-- Tells those that wait for the end of a lease to ask again, because it ends sooner: Redisson's
-- clients, and the first two of ours.
local function sooner_for(clients, channel)
  redis.call('PUBLISH', channel, '0')
  local first = front(clients)
  for i = 1, 2 do
    if first[i] then
      local own = channel .. ':' .. first[i]
      redis.pcall('PUBLISH', own, '0')
    end
  end
end
