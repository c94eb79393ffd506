-- Has a waiter stand in a fair queue, once, and count as alive for `alive_ms`; returns after how many
-- milliseconds it asks again. `moment` and `known` are its scores in `timeouts` and `waiters`, `left`
-- what is left of the lease, or of the life of the head where the lock is free.
local function join_fair(queue, timeouts, waiters, waiter, of)
  local present, left = of.present, of.left
  local score = tonumber(of.moment or 0)
  local rank = (of.moment or of.known) and redis.call('LPOS', queue, waiter)
  if not rank then
    local last = redis.call('LINDEX', queue, -1)
    local before = last and redis.call('ZSCORE', timeouts, last)
    before = tonumber(before or present + (of.free and 0 or math.max(0, left)))
    score = math.max(score, before + of.wait_ms)
    rank = redis.call('RPUSH', queue, waiter) - 1
  end
  score = math.min(math.max(score, present + 300000 + of.alive_ms), 9007199254740991)
  if score > tonumber(of.moment or 0) then
    redis.call('ZADD', timeouts, string.format('%.0f', score), waiter)
  end
  redis.call('ZADD', waiters, string.format('%.0f', present + of.alive_ms), waiter)
  local lasts_ms = score - present + of.alive_ms
  if redis.call('PTTL', waiters) < lasts_ms then
    redis.call('PEXPIRE', waiters, string.format('%.0f', lasts_ms))
  end
  local ahead = of.free and 0 or rank
  for nearer = 1, ahead do
    local other = redis.call('LINDEX', queue, rank - nearer)
    local alive = redis.call('ZSCORE', waiters, other)
    local dies = alive or redis.call('ZSCORE', timeouts, other)
    dies = math.min(tonumber(dies or present), 9007199254740991)
    if dies > present then
      return (alive or left < 0) and dies - present or math.min(left, dies - present)
    end
  end
  return left
end
