-- Tells those who wait a number of permits; returns how many clients heard it. Nothing that is
-- not above zero is published: it is no chance for anybody, and Redisson's listeners fail on a
-- negative number.
local function announce(channel, permits)
  return permits > 0 and redis.call('PUBLISH', channel, string.format('%.0f', permits)) or 0
end
