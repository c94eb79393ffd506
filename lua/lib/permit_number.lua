-- How many permits of a plain semaphore are free or recorded as taken; and how many there are by the
-- note in `total` (see note_number), unless that is fewer: then Redisson has changed the number.
-- What Redisson's clients have taken leaves no record.
local function permit_number(free, counts, total)
  local number, holdings = free, redis.call('HVALS', counts)
  for _, count in ipairs(holdings) do
    number = number + (whole(count, 1) or 0)
  end
  local noted = total and integer(redis.call('GET', total) or '')
  return number, noted and noted >= number and noted or nil
end
