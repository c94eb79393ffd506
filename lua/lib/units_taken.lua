-- How many units the owners of a semaphore have, all told.
local function units_taken(counts)
  local taken, holdings = 0, redis.call('HVALS', counts)
  for _, count in ipairs(holdings) do
    taken = taken + (whole(count, 1) or 0)
  end
  return taken
end
