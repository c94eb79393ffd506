-- Writes what call_units has found, if there is anything, behind the writes that must not fail. A
-- refusal changes nothing, because a note only tells how long others wait for whom it names.
local function keep_calls(clients, work)
  local gone, entries = work and work.gone or {}, {}
  for i, some in ipairs(gone) do
    entries[#entries + 1] = some[1]
    entries[#entries + 1] = some[2]
    if #entries > 1000 or not gone[i + 1] then
      redis.pcall('ZREM', clients, unpack(entries))
      entries = {}
    end
  end
  if work and work.called[1] then
    redis.pcall('ZADD', clients, unpack(work.called))
  end
  -- What only clients that wait need goes with the last of them: see lib/wake_foreign.
  local first = work and redis.pcall('ZRANGE', clients, '0', '0')[1]
  if first and string.sub(first, 1, 1) == '<' then
    redis.pcall('ZREM', clients, first)
  end
end
