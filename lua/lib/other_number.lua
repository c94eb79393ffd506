-- How many permits there are, if that is known and not `wanted`; else nil. What is free and what is
-- recorded as taken are the least. Redisson's clients may have more, without a record: then it is
-- what was noted (note_number), unless that is too few, because Redisson has changed the number.
local function other_number(free, counts, total, wanted)
  local number, holdings = free, redis.call('HVALS', counts)
  for _, count in ipairs(holdings) do
    number = number + (whole(count, 1) or 0)
  end
  if number < wanted then
    local noted = integer(redis.call('GET', total) or '')
    number = noted and noted >= number and noted or wanted
  end
  return number ~= wanted and number or nil
end
