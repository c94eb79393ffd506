-- Gives the records of a semaphore the expiry of its counter, which Redisson's `addPermits` and
-- `drainPermits` drop. Records that died first would take their units with them; records that
-- outlived it would be given back to another semaphore of this name. `records_left` is what the
-- caller knows of theirs.
local function follow(counter, permits, counts, records_left)
  local left = redis.call('PTTL', counter)
  records_left = records_left or redis.call('PTTL', permits)
  if left == records_left or left == -2 or records_left == -2 then
    return
  end
  for _, key in ipairs({permits, counts}) do
    if left >= 0 then
      redis.call('PEXPIRE', key, math.max(left, 1))
    else
      redis.call('PERSIST', key)
    end
  end
end
