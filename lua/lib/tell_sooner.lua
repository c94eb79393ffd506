-- Tells those who wait for a lock that its lease is about to end sooner than they know, so that
-- they ask again. Nobody is told of a later end: who asks at the old one learns of it.
local function tell_sooner(lock, lease_ms, channel, message)
  local left = redis.call('PTTL', lock)
  if left < 0 or left > lease_ms then
    redis.call('PUBLISH', channel, message)
  end
end
