-- Calls those of the clients that wait, in order, for whom units are `free` that nobody was called
-- for, each on a channel of its own. Who was called is noted, see lib/front; for 50 ms, what it wants is
-- reserved. Who is silent for longer is passed over, and who does not hear its call is gone: both leave
-- the queue. At most 100 are called at once; each that answers calls others.
-- Who wants more than there are keeps its place, and those behind it are called; but when it has waited
-- for 100 ms, and in 20 ms of each 100 from then on, units gather for it. The first that would be called
-- otherwise is told a 2, so that it looks if no release comes; if it asks, its place is 1 for that.
-- A `client` that asks for units (`wants`) may take them if it was called, if all before it in the
-- queue are served or want more, or if the first has waited for 20 ms at most and it does not yield.
-- Without `wants` it leaves.
-- Reads and publishes only: `keep_calls` writes. Where something is not permitted nobody is noted as
-- called, and the first two of those that were not called look; who becomes one of them hears a 2.
local function call_units(clients, channel, free, client, wants, yields)
  local gone, called, stay = {}, {}, {}
  local work = {gone = gone, called = called, stay = stay, place = 0, look_ms = -1}
  local time = redis.pcall('TIME')
  local notes = redis.pcall('ZRANGEBYSCORE', clients, '-inf', '(0', 'WITHSCORES')
  wants = wants or 0
  local present = time[1] and time[1] * 1000000 + time[2]
  work.joined = present and string.format('%.0f', present)
  if not present or notes.err then
    work.granted = wants > 0 and free >= wants
    return work
  end
  -- Units that are not reserved, clients for whom some are, and since when the first of them is silent.
  local left, fresh, oldest, known = free, 0, 0, {}
  for i, score in ipairs(notes) do
    local note, age = notes[i - 1], i % 2 == 0 and present + score
    local member = age and string.sub(note, 2)
    if member == client then
      work.answers = true
    elseif age and math.abs(age) > 50000 then
      known[member] = 'silent'
      gone[#gone + 1] = {member, note}
    elseif age then
      known[member] = 'called'
      left, fresh, oldest = left - wanted_units(member), fresh + 1, math.max(oldest, age)
    end
  end
  if wants == 0 or work.answers and free >= wants then
    work.granted, left = true, left - wants
  end
  -- Of those that were not called, how many were seen, and the first that stay.
  local seen, at, place, first, permitted = 0, {}, nil, nil, true
  local gathers, looks = false, nil
  -- Beside Redisson's clients the first eight look, see lib/await_units, else two.
  local most = wants > 0 and 8 or 2
  local rank, size = #notes / 2, most + 2 + #notes / 2
  local waiting = tonumber(redis.pcall('ZCARD', clients)) or 0
  for _ = 1, waiting do
    if left <= 0 and seen == 0 and (not client or work.answers and work.granted) then
      break
    end
    local last = string.format('%d', rank + size - 1)
    local some = redis.pcall('ZRANGE', clients, string.format('%d', rank), last, 'WITHSCORES')
    for i, score in ipairs(some) do
      local member, joined = some[i - 1], i % 2 == 0 and tonumber(score)
      -- Behind the clients comes the entry of lib/wake_foreign.
      if not joined or joined > 3000000000000000 or known[member] == 'silent' then
        member = nil
      elseif not first then
        first = joined
        local short = yields ~= '1' and present - first <= 20000
        if not work.granted and short and free >= wants then
          work.granted, left = true, left - wants
        end
      end
      local units = member and not known[member] and (member == client and wants or wanted_units(member))
      local fits, told = units and left >= units and fresh < 100, nil
      if fits and gathers then
        fits, looks = false, looks or member
      end
      if units and not (member == client and work.answers) then
        seen = seen + 1
      end
      if fits and member == client and not work.granted then
        work.granted, left = true, left - wants
      elseif fits and permitted and member ~= client then
        local own = channel .. ':' .. member
        told = tonumber(redis.pcall('PUBLISH', own, '0'))
        permitted = told
      end
      if told == 0 then
        gone[#gone + 1] = {member}
      elseif told then
        left, fresh = left - units, fresh + 1
        called[#called + 1] = '-' .. work.joined
        called[#called + 1] = '>' .. member
      elseif units and not (member == client and work.granted) then
        place = member == client and #stay or place
        stay[#stay + 1], at[#stay + 1] = member, seen
        local waited = present - joined
        gathers = gathers or left > 0 and units > left and waited >= 100000 and waited % 100000 < 20000
      end
    end
    local more = left > 0 and fresh < 100 and permitted and not looks
    if #some < 2 * size or #stay >= most and not more then
      break
    end
    rank, size = rank + size, 100
  end
  if not work.granted and not place then
    local fits = left >= wants and fresh < 100
    work.granted = fits and not gathers
    looks = looks or fits and gathers and client
  end
  for i = 1, 3 do
    local told = i == 3 and looks or i < 3 and stay[i] and at[i] > 2 and stay[i] ~= looks and stay[i]
    if told and told ~= client then
      local own = channel .. ':' .. told
      redis.pcall('PUBLISH', own, '2')
    end
  end
  place = math.min(place or #stay, looks == client and 1 or most)
  if fresh > 0 then
    -- Somebody was called before it.
    place = math.max(place, 1)
  end
  if fresh > 0 or gathers then
    work.look_ms = math.ceil((51000 - oldest) / 1000)
  end
  work.place = place
  return work
end
