-- ARGV: now, attempt id, reason ('' none, 'd' deduplicated, 'f' fenced off, or the settle time of quiesced in
-- milliseconds), the reason's bytes, '1' to forget the fingerprint
local now = clock()
local it = held(ARGV[2])
if not it or it.state ~= PROCESSING then
  return undecided(now)
end
local reason = ARGV[3]
if string.byte(it.head, 91) ~= 0 then
  if reason == '' then
    return undecided(now)
  end
  if reason ~= 'd' and reason ~= 'f' and now < plus(struct.unpack('>I8', it.head, 116), reason) then
    return undecided(now)
  end
end
local forgets = ARGV[5] == '1' and it.facts == 0 and reason ~= 'd' and bit.band(it.flags, FORGETTABLE) ~= 0
redis.call('PERSIST', key)
it.state, it.how, it.ended = RECEIVED, 2, now
redis.call('HSET', key, 'h', headed(it, now))
if reason ~= '' then
  redis.call('HSET', key, 'a', ARGV[4])
end
if forgets then
  redis.call('HDEL', key, 'f')
end
return {1, now, forgets and 1 or 0}
