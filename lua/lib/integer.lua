-- The number that `text` spells as Redis spells integers, negative ones too, if it is small
-- enough to be exact in Lua; else nil.
local function integer(text)
  local number = (text == '0' or string.match(text, '^-?[1-9]%d*$')) and tonumber(text)
  return number and math.abs(number) < 9007199254740992 and number or nil
end
