-- The keys of a reader's holds `first` to `last`, see reader_key. A count that nobody can mean
-- must not stop the server, so not more than some thousands.
local function reader_keys(lock, owner, first, last)
  local found = {}
  last = math.min(last, first + 9999)
  for number = first, last do
    found[#found + 1] = reader_key(lock, owner, number)
  end
  return found
end
