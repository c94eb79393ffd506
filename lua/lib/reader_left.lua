-- For how many milliseconds a reader with so many holds lives on: the longest of its leases.
-- -2 if all of them are over, or there is none; -1 if the longest has no end.
local function reader_left(lock, owner, count)
  local left = -2
  local reader_holds = reader_keys(lock, owner, 1, count)
  for _, key in ipairs(reader_holds) do
    left = math.max(left, redis.call('PTTL', key))
  end
  return left
end
