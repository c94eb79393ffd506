-- How many permits of a plain semaphore are free or recorded as taken. What Redisson's clients have
-- taken leaves no record, so if fewer than `named` are found, there may be `named`, unless the note in
-- `total` says fewer (see note_number). A note that says more proves nothing: Redisson may have taken
-- permits away, or deleted the semaphore and made it again. A user who may not look agrees.
local function permit_number(free, counts, total, named)
  local number, holdings = free, redis.pcall('HVALS', counts)
  if holdings.err then
    return named or redis.call('HVALS', counts)
  end
  for _, count in ipairs(holdings) do
    number = number + (whole(count, 1) or 0)
  end
  if not named or number >= named then
    return number
  end
  local noted = redis.pcall('GET', total)
  noted = type(noted) == 'string' and integer(noted)
  return noted and noted >= number and noted < named and noted or named
end
