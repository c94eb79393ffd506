-- Whether a lock with a new lease ends sooner than those who wait for it were told: they are told to
-- ask again. A later end needs no message, because who asks at the old one learns of it.
local function sooner(lock, lease_ms)
  local left = redis.call('PTTL', lock)
  return left < 0 or left > lease_ms
end
