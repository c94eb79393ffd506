-- Has a semaphore stay `idle_ms` longer than the last lease that is recorded; 0 leaves it as it is.
-- It only ever lengthens an expiry. With a permit that never ends among them there is none.
local function keep(counter, permits, idle_ms)
  if idle_ms == 0 then
    return
  end
  local last = tonumber(redis.call('ZRANGE', permits, '-1', '-1', 'WITHSCORES')[2] or '0')
  if last >= 922337203685477 then
    redis.call('PERSIST', counter)
    return
  end
  local wanted = idle_ms + math.max(0, last - now())
  local left = redis.call('PTTL', counter)
  if left < wanted then
    redis.call('PEXPIRE', counter, string.format('%.0f', wanted))
  end
end
