-- Sets a tombstone, a receipt or a version for `ms`; nothing if that is 0. It comes before the
-- change it belongs to, so that a refusal changes nothing. PEXPIRE takes no memory: below Redis 7
-- a full server takes SET only in a script that has written already.
local function remember(key, number, ms)
  if ms > 0 then
    local life = string.format('%.0f', ms)
    redis.call('PEXPIRE', key, life)
    redis.call('SET', key, string.format('%.0f', number), 'PX', life)
  end
end
