-- The first waiter that is alive, the moment until which it counts as alive, and how many
-- before it left the queue because they were dead. Only for a lock that is free: nobody is in
-- the way of a lock that is held. Who asks is alive. A waiter of this toolkit else is dead
-- exactly when it has not asked for a lease; Redisson's when its score has passed, which is
-- Redisson's own rule. One without any score (somebody deleted them) gets Redisson's default
-- lease to show up: it would stand in the way for ever.
local function living_head(queue, timeouts, waiters, present, asks)
  local length = redis.call('LLEN', queue)
  for dead = 1, length do
    local head = redis.call('LINDEX', queue, 0)
    local dies = redis.call('ZSCORE', waiters, head) or redis.call('ZSCORE', timeouts, head)
    if not dies then
      dies = present + 30000
      redis.call('ZADD', timeouts, string.format('%.0f', dies), head)
    end
    if head == asks or tonumber(dies) > present then
      return head, math.min(tonumber(dies), 9007199254740991), dead - 1
    end
    redis.call('LPOP', queue)
    redis.call('ZREM', timeouts, head)
    redis.call('ZREM', waiters, head)
  end
  return nil, present, length
end
