-- A sorted set of a crowd's readers: reader -> ms until which its longest lease lasts, `inf` where
-- only its keys tell. There is none for a few readers.
local function readers_index(lock)
  local tag = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
  return tag .. ':redisson_py:readers'
end
