-- Runs commands if a claim may write. Answers {'', reply, …}, or why not: {'stale', <token>} or
-- {'not raised', <token>}.
--
-- KEYS[1]  fences, as raise.lua keeps them; then every key of the commands
-- ARGV[1]  first hash of the range, 16 hexadecimal digits
-- ARGV[2]  the hash behind its last one; empty for a range to the end
-- ARGV[3]  token, of fixed width
-- ARGV[4]  then of each command the number of its words, and these
local fences, first, behind, token = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

local before = redis.call('ZREVRANGEBYLEX', fences, '(' .. first .. ';', '-', 'LIMIT', 0, 1)[1]
local lowest = before and string.sub(before, 18) or '0000000000.0000000000000000000'
local highest = lowest
local high = behind == '' and '+' or '(' .. behind
for _, member in ipairs(redis.call('ZRANGEBYLEX', fences, '[' .. first, high)) do
  local other = string.sub(member, 18)
  if other > highest then highest = other end
  if other < lowest then lowest = other end
end
if highest > token then return {'stale', highest} end
if lowest < token then return {'not raised', lowest} end

local replies, word = {''}, 4
while ARGV[word] do
  local last = word + tonumber(ARGV[word])
  table.insert(replies, redis.call(unpack(ARGV, word + 1, last)))
  word = last + 1
end
return replies
