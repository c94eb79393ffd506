-- Leaves the receipt of a call, see receipt; `answer` is text. For PEXPIRE see remember.
local function leave_receipt(key, calls, answer, receipt_ms)
  local life = string.format('%.0f', receipt_ms)
  redis.call('PEXPIRE', key, life)
  redis.call('SET', key, string.format('%.0f %s', calls, answer), 'PX', life)
end
