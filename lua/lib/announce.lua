-- Tells those who wait a number of permits; returns how many clients heard it. Nothing that is
-- not above zero is published: it is no chance for anybody, and Redisson's listeners fail on a
-- negative number. They cut a greater one to 32 bits with a sign, where it may become one.
local function announce(channel, permits)
  local told = math.min(permits, 2147483647)
  return permits > 0 and redis.call('PUBLISH', channel, string.format('%.0f', told)) or 0
end
