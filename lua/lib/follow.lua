-- Has the records of a semaphore live as long as its counter, and as long as the last lease among
-- them. Redisson's `addPermits` and `drainPermits` drop an expiry of the counter; records that died
-- first would take their units with them. As long as a holder lives it renews its lease before it
-- ends, and so finds out. `records_left` is what the caller knows of their expiry.
local function follow(counter, permits, counts, records_left)
  local left = redis.call('PTTL', counter)
  records_left = records_left or redis.call('PTTL', permits)
  if left == records_left or left == -2 or records_left == -2 then
    return
  end
  if left >= 0 then
    local last = tonumber(redis.call('ZRANGE', permits, '-1', '-1', 'WITHSCORES')[2] or '0')
    if last < 922337203685477 then
      left = math.max(left, last - now())
    end
    left = string.format('%.0f', math.max(left, 1))
    redis.call('PEXPIRE', permits, left)
  else
    redis.call('PERSIST', permits)
  end
  if counts and type(left) == 'string' then
    redis.call('PEXPIRE', counts, left)
  elseif counts then
    redis.call('PERSIST', counts)
  end
end
