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
  if left >= 0 then
    redis.call('PEXPIRE', permits, math.max(left, 1))
  else
    redis.call('PERSIST', permits)
  end
  if counts and left >= 0 then
    redis.call('PEXPIRE', counts, math.max(left, 1))
  elseif counts then
    redis.call('PERSIST', counts)
  end
end
