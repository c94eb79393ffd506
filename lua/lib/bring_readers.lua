-- What follows the grant to a reader: its client leaves the queue, and all readers that wait are
-- called, unless it was called with them. Returns what Redis answers if leaving is refused.
local function bring_readers(clients, channel, client)
  local called = false
  if client ~= '' then
    local removed = leave_sides(clients, channel, client)
    if type(removed) == 'table' then
      return removed
    end
    called = removed == 2
  end
  if not called then
    mark_sides(clients, call_sides(clients, channel, '', true))
  end
  return nil
end
