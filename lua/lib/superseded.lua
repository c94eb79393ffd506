-- Whether a later change of the same hold has been carried out: then this one is a late duplicate
-- and changes nothing. Version 0 is not compared. An equal version is a repetition.
local function superseded(key, version)
  local seen = version > 0 and whole(redis.call('GET', key) or '', 1)
  return seen and seen > version or false
end
