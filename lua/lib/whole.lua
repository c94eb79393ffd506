-- The number that `text` spells in plain digits, if it is at least `least` and small enough
-- to be exact in Lua; else nil. `tonumber` alone takes 1.5, inf and 0x10 too, which pass a
-- comparison and then fail in the command after the first write.
local function whole(text, least)
  local number = string.match(text, '^%d+$') and tonumber(text)
  return number and number >= least and number < 9007199254740992 and number or nil
end
