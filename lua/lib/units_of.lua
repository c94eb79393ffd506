-- The units of Redisson's records of admissions: a length, so many bytes, and the units.
local function units_of(members)
  local units = 0
  for _, member in ipairs(members) do
    units = units + select(2, struct.unpack('Bc0I', member))
  end
  return units
end
