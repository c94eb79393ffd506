-- Tells those that wait for the end of a lease to ask again, because one ends sooner: Redisson's
-- clients, and the first two of ours that were not called. At most about 100 were: see call_units.
local function sooner_units(clients, channel)
  redis.call('PUBLISH', channel, '1')
  local some, called, told = redis.pcall('ZRANGE', clients, '0', '250'), {}, 0
  for _, member in ipairs(some) do
    local name = string.match(member, '^>(.*)')
    if name then
      called[name] = true
    elseif not called[member] and told < 2 then
      told = told + 1
      local own = channel .. ':' .. member
      redis.pcall('PUBLISH', own, '0')
    end
  end
end
