-- ARGV: now, attempt id, response and identity in milliseconds ('' is for ever), how far a record outlives its fence,
-- outcome, and its content if that is kept
local now = clock()
local it = held(ARGV[2])
if not it or (it.state ~= PROCESSING and it.state ~= UNCERTAIN) then
  return undecided(now)
end
local response, identity = 0, 0
if ARGV[3] ~= '' then
  response = plus(now, ARGV[3]) + 1
end
if ARGV[4] ~= '' then
  identity = plus(now, ARGV[4]) + 1
end
if it.state == UNCERTAIN then
  redis.call('HDEL', key, 'q')
end
it.state, it.how, it.ended = COMPLETED, 1, now
it.times = struct.pack('>I8I8I8', now + 1, response, identity)
if ARGV[7] then
  redis.call('HSET', key, 'h', headed(it, now), 'o', ARGV[6], 'b', ARGV[7])
else
  redis.call('HSET', key, 'h', headed(it, now), 'o', ARGV[6])
end
-- Redis forgets by its own clock, so a record of another clock has no expiry (G-42).
if identity > 0 and ARGV[1] == '' then
  local fence = struct.unpack('>I8', it.head, 79)
  redis.call('PEXPIREAT', key, string.format('%.0f', math.max(identity - 1, fence + ARGV[5] + 1)))
else
  redis.call('PERSIST', key)
end
return {1, now}
