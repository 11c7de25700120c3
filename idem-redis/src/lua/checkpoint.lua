-- ARGV: now, attempt id, lease in milliseconds, name, entry, most checkpoints, '1' where the value is too large
local now = clock()
local it = held(ARGV[2])
if not it or it.state ~= PROCESSING then
  return undecided(now)
end
-- The attempt's number makes names of different attempts different.
local name = 'k' .. string.sub(it.head, 87, 90) .. ARGV[4]
local known = redis.call('HGET', key, name)
if known then
  -- Equal names and equal values have equal entries; place and time are before them.
  if string.sub(known, 11) ~= ARGV[5] then
    return undecided(now)
  end
elseif it.facts >= tonumber(ARGV[6]) or ARGV[7] == '1' then
  return undecided(now)
end
it.lease = math.max(it.lease, plus(now, ARGV[3]))
redis.call('PERSIST', key)
if known then
  redis.call('HSET', key, 'h', headed(it, now))
else
  local place = it.facts
  it.facts = place + 1
  redis.call('HSET', key, 'h', headed(it, now), name, struct.pack('>I2I8', place, now) .. ARGV[5])
end
return {1, now, it.lease, known and 1 or 0}
