-- POST a JSON body of 776 bytes that was never sent before: a prompt of words drawn with the seed
-- (about 130 tokens), then a counter.
-- Constant: the head, the body's length, its fields. The pieces are made before the clock runs, so that a
-- request costs one format and one concatenation.
-- Arguments: seed, "true" or "false" for stream, a text that no other run of this bench has, and "fresh" or
-- "repeated", which sends one body again and again; a file of words, one a line.

local LENGTH, TEXTS = 776, 1024
local head, before, after, texts, count, step = "", "", "", {}, 0, 1

local function prompt(words, length)
  local made, size = {}, 0
  while size <= length do -- the last word has no space after it
    made[#made + 1] = words[math.random(#words)]
    size = size + #made[#made] + 1
  end
  return table.concat(made, " "):sub(1, length)
end

function init(args)
  math.randomseed(tonumber(args[1]))
  before = '{"model":"google/gemma-3-270m","prompt":"'
  after = ' ' .. args[3] .. '","max_tokens":16,"ignore_eos":true,"temperature":0.0,"stream":' .. args[2] .. '}'
  step = args[4] == "fresh" and 1 or 0
  local room = LENGTH - #before - #after - 11
  local words = {}
  for word in io.lines(args[5]) do
    words[#words + 1] = word
  end
  for i = 1, TEXTS do
    texts[i] = prompt(words, room)
  end
  local lines = {
    "POST /v1/completions HTTP/1.1", "Host: " .. wrk.host, "Content-Type: application/json",
    "Accept: */*", "User-Agent: wrk", "Content-Length: " .. LENGTH, "", "",
  }
  head = table.concat(lines, "\r\n") .. before
end

function request()
  count = count + step
  return head .. texts[count % TEXTS + 1] .. string.format(" %010d", count) .. after
end

function done(summary)
  local errors = summary.errors
  io.write(string.format(
    '\n@{"requests":%d,"seconds":%.6f,"bytes":%d,"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d}\n',
    summary.requests, summary.duration / 1e6, summary.bytes,
    errors.connect, errors.read, errors.write, errors.status, errors.timeout))
end
