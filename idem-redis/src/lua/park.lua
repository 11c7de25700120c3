-- ARGV: now, attempt id, the parking without its time
local now = clock()
local it = held(ARGV[2])
if not it or it.state ~= PROCESSING then
  return undecided(now)
end
redis.call('PERSIST', key)
it.state, it.how, it.ended = UNCERTAIN, 3, now
redis.call('HSET', key, 'h', headed(it, now), 'q', struct.pack('>I8', now) .. ARGV[3])
return {1, now}
