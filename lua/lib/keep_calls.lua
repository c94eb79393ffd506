-- Writes what call_units has found, behind the writes that must not fail. A refusal changes nothing,
-- because a note only tells how long others wait for whom it names.
local function keep_calls(clients, work)
  if not work then
    return
  end
  local gone = {}
  for i, some in ipairs(work.gone) do
    gone[#gone + 1] = some[1]
    gone[#gone + 1] = some[2]
    if #gone > 1000 or not work.gone[i + 1] then
      redis.pcall('ZREM', clients, unpack(gone))
      gone = {}
    end
  end
  if work.called[1] then
    redis.pcall('ZADD', clients, unpack(work.called))
  end
end
