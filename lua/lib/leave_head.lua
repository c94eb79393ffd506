-- Takes the owner that is granted a fair lock out of its queue, in which `head`, itself, is the first
-- of those that live; takes its wait_ms off all others, as Redisson does, but not below `ends_at`,
-- the end of the lease, and 300 s for ours: see fair_lock.acquire.
local function leave_head(queue, timeouts, waiters, waiter, head, exact, ends_at, wait_ms)
  if head then
    redis.call('LPOP', queue)
  end
  redis.call('ZREM', timeouts, waiter)
  redis.call('ZREM', waiters, waiter)
  if not redis.call('LINDEX', queue, 0) then
    -- Whom Redisson took for dead and who then died may have left something here.
    redis.call('DEL', waiters)
    return
  end
  if not exact then
    ends_nearer(queue, timeouts, wait_ms, ends_at + 300000)
    return
  end
  local ours = {}
  local living = redis.call('ZRANGE', waiters, 0, -1)
  for _, member in ipairs(living) do
    ours[member] = 300000
  end
  -- Read at once and written at once: a hundred waiters would be three hundred commands.
  local behind = redis.call('ZRANGE', timeouts, 0, -1, 'WITHSCORES')
  local nearer = {}
  for i, member in ipairs(behind) do
    local score = i % 2 == 1 and math.min(tonumber(behind[i + 1]), 9007199254740991)
    local least = ends_at + (ours[member] or 0)
    if score and score > least then
      nearer[#nearer + 1] = string.format('%.0f', math.max(score - wait_ms, least))
      nearer[#nearer + 1] = member
    end
    if #nearer == 2000 or i == #behind and #nearer > 0 then
      redis.call('ZADD', timeouts, unpack(nearer))
      nearer = {}
    end
  end
end
