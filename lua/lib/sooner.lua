-- Whether a lock with a new lease ends sooner than those who wait for it were told: they are told to
-- ask again. A later end needs no message, because who asks at the old one learns of it, and a tenth
-- of a second is not worth one: the client counts a lease from before its request, so that much
-- comes with nearly each inner release.
local function sooner(lock, lease_ms)
  local left = redis.call('PTTL', lock)
  return left < 0 or left > lease_ms + 100
end
