-- Redisson's score arithmetic for a queue of this toolkit's waiters alone. A waiter of Redisson's
-- that comes counts from the last score, and takes the first waiter for dead by its score. So
-- these two are kept as if all scores behind one that left had come nearer by `off`, but not
-- nearer than `least`; `last` is the score that the last waiter had, if that is the one that left.
local function ends_nearer(queue, timeouts, off, least, last)
  local tail = redis.call('LINDEX', queue, -1)
  local score = tail and redis.call('ZSCORE', timeouts, tail)
  if not score then
    return
  end
  local nearer = math.max(tonumber(last or score) - off, least)
  if nearer < tonumber(score) then
    redis.call('ZADD', timeouts, string.format('%.0f', nearer), tail)
  end
  local head = redis.call('LINDEX', queue, 0)
  if head ~= tail and tonumber(redis.call('ZSCORE', timeouts, head) or '0') > least then
    redis.call('ZADD', timeouts, string.format('%.0f', least), head)
  end
end
