-- The first waiter that is alive, but for the one that `leaves`; the moment until which it counts
-- as alive; the dead ones before it; for how long Redisson would have waited for those; whether it
-- has no score; and whether it is one of ours. Of a held lock it is the one to be told when the lease ends. The one that asks is
-- alive. Another waiter of this toolkit is dead exactly when it has not asked for a lease;
-- Redisson's when its score has passed, which is Redisson's own rule. One without any score
-- (somebody deleted them) has Redisson's default lease to show up. Reads only: see drop_dead.
local function living_head(queue, timeouts, waiters, present, asks, leaves)
  local length = redis.call('LLEN', queue)
  local dead, saved = {}, 0
  for place = 1, length do
    local head = redis.call('LINDEX', queue, place - 1)
    if head ~= leaves then
      local moment = redis.call('ZSCORE', timeouts, head)
      local ours = redis.call('ZSCORE', waiters, head)
      local known = ours or moment
      local dies = known or present + 30000
      if head == asks or tonumber(dies) > present then
        return head, math.min(tonumber(dies), 9007199254740991), dead, saved, not known, ours
      end
      saved = math.max(saved, math.min(tonumber(moment or 0), 9007199254740991) - present)
      dead[#dead + 1] = head
    end
  end
  return nil, present, dead, saved
end
