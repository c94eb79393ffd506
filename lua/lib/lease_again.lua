-- Gives a lease to each owner that has units and none: the sorted set has vanished, or a part of it.
-- Without one, what a dead owner had would never come back.
local function lease_again(permits, counts, ends_at)
  local owners = redis.call('HKEYS', counts)
  for _, owner in ipairs(owners) do
    redis.call('ZADD', permits, 'NX', ends_at, owner)
  end
end
