-- Adds who waits in the queue of clients to what is `found`: of each, in order, its name, ms since it
-- joined, and ms since it was called, -1 if it was not. A client that was called is noted in an entry
-- of its own; what cannot be read is no queue: see lib/front. For '<' see lib/wake_foreign.
local function add_waiting(found, clients)
  local time = redis.call('TIME')
  local present = time[1] * 1000000 + time[2]
  local waiting, called = redis.pcall('ZRANGE', clients, '0', '-1', 'WITHSCORES'), {}
  for i, score in ipairs(waiting) do
    local member, moment = waiting[i - 1], tonumber(score)
    if i % 2 == 0 and string.sub(member, 1, 1) == '>' then
      called[string.sub(member, 2)] = math.max(0, math.floor((present + moment) / 1000))
    elseif i % 2 == 0 and string.sub(member, 1, 1) ~= '<' then
      found[#found + 1] = member
      found[#found + 1] = math.max(0, math.floor((present - moment) / 1000))
      found[#found + 1] = called[member] or -1
    end
  end
end
