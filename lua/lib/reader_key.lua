-- The key whose expiry is the lease of one of a reader's holds, named as Redisson names it: a
-- lock's name gets braces unless it has an opening one.
local function reader_key(lock, owner, number)
  local tag = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
  return tag .. ':' .. owner .. ':rwlock_timeout:' .. (number == 1 and '1' or string.format('%.0f', number))
end
