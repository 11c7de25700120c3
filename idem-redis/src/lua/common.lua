-- Every script: KEYS[1] is the record, a hash. ARGV[1] is the instant in milliseconds, or '' for the server's clock.
-- The answer is {1, now, ...} where the script has decided and written, and {0, now, fields} where the caller decides
-- from what is stored.

-- The head of a record ('h'), big-endian. Optional times are 0 when absent, and one more than the time otherwise.
--   1 format, 2 state, 3 flags, 4 version, 12 updated, 20 lease deadline, 28 how the attempt ended, 29 when,
--   37 checkpoints | 39 completed, 47 response deadline, 55 identity deadline | 63 attempt id, 79 fence, 87 number,
--   91 mode, 92 started, 100 first grant, 108 created, 116 earlier lease deadline, 124 fence floor | 131 is the last.
local FORMAT, HEAD_BYTES = 1, 131
local RECEIVED, PROCESSING, COMPLETED, UNCERTAIN = 0, 1, 2, 3
local REGISTERED, FORGETTABLE = 1, 2
local LATEST = 9007199254740991

local key = KEYS[1]

local function clock()
  if ARGV[1] ~= '' then
    return tonumber(ARGV[1])
  end
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function plus(time, millis)
  return math.min(time + millis, LATEST)
end

local function undecided(now)
  return {0, now, redis.call('HGETALL', key)}
end

-- What a held write of `attempt` changes, or nil where the record is not this attempt's, or not of this program's form.
local function held(attempt)
  local head = redis.call('HGET', key, 'h')
  if not head or #head ~= HEAD_BYTES or string.sub(head, 63, 78) ~= attempt then
    return nil
  end
  local format, state, flags, version, _, lease, how, ended, facts = struct.unpack('>BBBI8I8I8BI8I2', head)
  if format ~= FORMAT then
    return nil
  end
  return {
    head = head, state = state, flags = flags, version = version, lease = lease, how = how, ended = ended, facts = facts,
    times = string.sub(head, 39, 62),
  }
end

-- The head after a held write at `now`.
local function headed(it, now)
  return struct.pack('>BBBI8I8I8BI8I2', FORMAT, it.state, it.flags, it.version + 1, now, it.lease, it.how, it.ended, it.facts)
    .. it.times .. string.sub(it.head, 63)
end
