-- An error, if this user may not do what ends a hold: who could acquire and not release would keep
-- others out for a lease. `needs` are the commands, and behind a colon the channel. Before Redis 7
-- nobody can be asked, and only the channel is tried: a 2 there wakes nobody.
local function lacks(needs, key)
  local commands, channel = string.match(needs, '^([^:]*):(.*)$')
  if not channel then
    return redis.error_reply('ERR needs must be commands, a colon and a channel')
  end
  local publish, missing = 'PUBLISH', nil
  if not redis.acl_check_cmd then
    local refused = redis.pcall('PUBLISH', channel, '2')
    missing = type(refused) == 'table' and publish
  elseif not redis.acl_check_cmd(publish, channel, '0') then
    missing = publish
  else
    string.gsub(commands, '%a+', function(command)
      if not redis.acl_check_cmd(command, key) then
        missing = command
      end
    end)
  end
  local where = missing == publish and ' on the channel ' .. channel or ''
  return missing and redis.error_reply("NOPERM a release needs permission to run the '"
    .. string.lower(missing) .. "' command" .. where)
end
