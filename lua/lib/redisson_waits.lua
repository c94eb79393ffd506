-- Whether one of Redisson's waiters may be queued: it is in `timeouts` only, ours are in both. One
-- of ours that Redisson took out may still be in `waiters`, but not for long while it lives, and
-- dead ones are not counted on.
local function redisson_waits(timeouts, waiters, present)
  return redis.call('ZCARD', timeouts) ~= redis.call('ZCARD', waiters)
    or redis.call('ZCOUNT', waiters, '-inf', string.format('%.0f', present)) > 0
end
