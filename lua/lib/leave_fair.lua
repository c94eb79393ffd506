-- Takes a waiter that gives up, or has what it waited for, out of a fair queue, wherever it stands;
-- takes its wait_ms off those behind it as lib/leave_head does. `last` is its score if it was the last.
local function leave_fair(queue, timeouts, waiters, waiter, exact, ends_at, wait_ms, last)
  -- Below Redis 7 a full server takes the others only after one that needs no memory.
  redis.call('ZREM', timeouts, waiter)
  local rank = exact and redis.call('LPOS', queue, waiter)
  local behind = rank and redis.call('LRANGE', queue, rank + 1, -1) or {}
  redis.call('ZREM', waiters, waiter)
  redis.call('LREM', queue, 1, waiter)
  if not exact then
    ends_nearer(queue, timeouts, wait_ms, ends_at + 300000, last)
    return
  end
  local ours, moments, nearer = {}, {}, {}
  local living = redis.call('ZRANGE', waiters, 0, -1)
  for _, member in ipairs(living) do
    ours[member] = 300000
  end
  local scores = redis.call('ZRANGE', timeouts, 0, -1, 'WITHSCORES')
  for i, member in ipairs(scores) do
    moments[member] = tonumber(scores[i + 1])
  end
  for i, member in ipairs(behind) do
    local score = math.min(moments[member] or 0, 9007199254740991)
    local least = ends_at + (ours[member] or 0)
    if score > least then
      nearer[#nearer + 1] = string.format('%.0f', math.max(score - wait_ms, least))
      nearer[#nearer + 1] = member
    end
    if #nearer == 2000 or i == #behind and #nearer > 0 then
      redis.call('ZADD', timeouts, unpack(nearer))
      nearer = {}
    end
  end
end
