-- How many units a client in the queue wants: its name ends with a colon and that number, if it is
-- not one.
local function wanted_units(client)
  return tonumber(string.match(client, ':(%d+)$') or '1')
end
