-- Tells Redisson's clients, and older ones of ours, how many units are free, where clients stand in
-- the queue, after `call_units`: see lib/announce and lib/wake_foreign.
local function tell_units(clients, channel, permits, work)
  local told = math.min(permits, 2147483647)
  if permits > 0 and work.called[1] then
    if wake_foreign(clients, channel, string.format('0%.0f', told)) then
      for i = 1, 2 do
        if work.stay[i] then
          local own = channel .. ':' .. work.stay[i]
          redis.pcall('PUBLISH', own, '2')
        end
      end
    end
  elseif permits > 0 then
    redis.call('PUBLISH', channel, string.format('0%.0f', told))
  end
end
