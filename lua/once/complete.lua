#!lua flags=allow-oom
--! script   once.complete
--! version  4
--! keys     lock:hash record:hash receipt:string
--! args     owner:str token:int kind:str result:str keep_ms:int channel:str receipt_ms:int
--! returns  1 = recorded | 0 = the owner does not run it | array = b or s, and another result, which an earlier call of the owner recorded
--! retry    safe: leaves a receipt of the owner, so that a repetition gets the first answer and records nothing

--! include lib.whole

-- Only who runs it may say that it is done. A full server lets it: what has had its effect would be
-- run again. The lock stays: its holder releases it next, and nobody waits for that, since the
-- record is looked at first. The message wakes all that wait. It comes first because it may be
-- refused, and then nothing has changed. For PEXPIRE see lib/remember.
local lock, record, receipt = KEYS[1], KEYS[2], KEYS[3]
local owner, token, kind, result = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local keep_ms, channel, receipt_ms = whole(ARGV[5], 1), ARGV[6], whole(ARGV[7], 1)

if not (whole(token, 1) and keep_ms and receipt_ms) then
  return redis.error_reply('ERR token, keep_ms and receipt_ms must be positive integers')
end
if redis.call('EXISTS', receipt) == 1 then
  local was = redis.call('HMGET', record, 'token', 'kind', 'result')
  if was[1] == token and was[2] and was[3] and not (was[2] == kind and was[3] == result) then
    return {was[2], was[3]}
  end
  return 1
end
if redis.call('HEXISTS', lock, owner) == 0 then
  return 0
end
-- A key of another type is an error that changes nothing.
redis.call('HLEN', record)
redis.call('PUBLISH', channel, '1')
local kept = string.format('%.0f', receipt_ms)
redis.call('PEXPIRE', receipt, kept)
redis.call('SET', receipt, '1', 'PX', kept)
redis.call('HSET', record, 'token', token, 'kind', kind, 'result', result)
local refused = redis.pcall('PEXPIRE', record, string.format('%.0f', keep_ms))
if type(refused) == 'table' then
  -- Not permitted: without an expiry it would be done for ever.
  redis.call('DEL', record, receipt)
  return refused
end
return 1
