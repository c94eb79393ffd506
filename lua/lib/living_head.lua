-- The first waiter that is alive, the moment until which it counts as alive, and how many
-- before it left the queue because they were dead. Only for a lock that is free: nobody is in
-- the way of a lock that is held. Who asks is alive. A waiter of this toolkit else is dead
-- exactly when it has not asked for a lease; Redisson's when its score has passed, which is
-- Redisson's own rule. One without any score (somebody deleted them) gets Redisson's default
-- lease to show up: it would stand in the way for ever.
--
-- Redisson would have passed over one of ours when its score had passed only, and the scores of
-- those behind count from there. They come nearer by what was saved, or a dead one of Redisson's
-- would be found that much later than Redisson finds it. One that lives has a second to come.
local function living_head(queue, timeouts, waiters, present, asks)
  local length = redis.call('LLEN', queue)
  local saved = 0
  local function come_nearer()
    local behind = redis.call('ZRANGE', timeouts, 0, -1, 'WITHSCORES')
    for i, member in ipairs(behind) do
      local score = i % 2 == 1 and math.min(tonumber(behind[i + 1]), 9007199254740991)
      -- Ours keep what Redisson may take off.
      local least = present + (score and redis.call('ZSCORE', waiters, member) and 330000 or 1000)
      if score and score > least then
        score = string.format('%.0f', math.max(score - saved, least))
        redis.call('ZADD', timeouts, score, member)
      end
    end
  end
  for dead = 1, length do
    local head = redis.call('LINDEX', queue, 0)
    local moment = redis.call('ZSCORE', timeouts, head)
    local dies = redis.call('ZSCORE', waiters, head) or moment
    if not dies then
      dies = present + 30000
      redis.call('ZADD', timeouts, string.format('%.0f', dies), head)
    end
    if head == asks or tonumber(dies) > present then
      if saved > 0 then
        come_nearer()
        dies = redis.call('ZSCORE', waiters, head) or redis.call('ZSCORE', timeouts, head)
      end
      return head, math.min(tonumber(dies), 9007199254740991), dead - 1
    end
    saved = math.max(saved, math.min(tonumber(moment or 0), 9007199254740991) - present)
    redis.call('LPOP', queue)
    redis.call('ZREM', timeouts, head)
    redis.call('ZREM', waiters, head)
  end
  return nil, present, length
end
