-- Takes the dead that living_head found out of the queue. Redisson would have passed over one of
-- ours when its score had passed only, and the scores of those behind count from there. They come
-- nearer by what was saved, or a dead one of Redisson's would be found that much later than
-- Redisson finds it. One that lives has a second to come.
local function drop_dead(queue, timeouts, waiters, present, dead, saved)
  if #dead == 0 then
    return
  end
  local last = redis.call('LINDEX', queue, -1)
  for _, member in ipairs(dead) do
    redis.call('ZREM', timeouts, member)
    redis.call('ZREM', waiters, member)
    redis.call('LREM', queue, 1, member)
  end
  local exact = saved > 0 and needs_scores(timeouts, waiters, present)
  if saved > 0 and not exact and last ~= dead[#dead] then
    ends_nearer(queue, timeouts, saved, present + 330000)
  end
  local behind = exact and redis.call('ZRANGE', timeouts, 0, -1, 'WITHSCORES') or {}
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
