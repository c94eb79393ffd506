-- Gives a lease to each owner that has units and none: the sorted set has vanished, or a part of it.
-- Without one, what a dead owner had would never come back.
local function lease_again(permits, counts, ends_at)
  local owners = redis.call('HKEYS', counts)
  for _, owner in ipairs(owners) do
    if not redis.call('ZSCORE', permits, owner) then
      redis.call('ZADD', permits, ends_at, owner)
    end
  end
end
