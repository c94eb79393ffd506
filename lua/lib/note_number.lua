-- Notes how many permits a semaphore was given, for permit_number; without a number, only has the note
-- last as long as the counter. A user who may not do that does without.
local function note_number(counter, total, number)
  if number then
    redis.pcall('SET', total, string.format('%.0f', number))
  end
  local left = redis.pcall('PTTL', counter)
  if type(left) == 'number' and left > 0 then
    redis.pcall('PEXPIRE', total, string.format('%.0f', left))
  end
end
