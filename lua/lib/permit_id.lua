-- The permit id at a place in a list of them; each is 16 raw bytes.
local function permit_id(ids, place)
  return string.sub(ids, 16 * place - 15, 16 * place)
end
