-- Whether all scores of a queue must be kept as Redisson keeps them: one of its waiters may be
-- queued, or the queue is short. Its waiters are in `timeouts` only, ours are in both. One of ours
-- that Redisson took out may still be in `waiters`: while it lives, until it asks again; where
-- there are dead ones, the number of members tells nothing.
local function needs_scores(timeouts, waiters, present)
  local members = redis.call('ZCARD', timeouts)
  return members <= 64 or members ~= redis.call('ZCARD', waiters)
    or redis.call('ZCOUNT', waiters, '-inf', string.format('%.0f', present)) > 0
end
