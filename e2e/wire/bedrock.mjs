// Amazon Bedrock: Converse, ConverseStream, and InvokeModel with Claude. Every request is
// signed, and the signature is computed again. Its files and batches are in aws.mjs.
import { createHash, createHmac } from 'node:crypto';
import { replyTo, SECOND, USAGE } from '../conversation.mjs';
import { invoked, sign } from './anthropic.mjs';
import { BUCKET, jobs, s3 } from './aws.mjs';
import { addResult, pieces, scripted } from './common.mjs';
import { boolean, demand, either, equal, filled, integer, is, like, list, number, object, open, text } from './shape.mjs';

export const REGION = 'eu-central-1';
export const ACCESS_KEY = 'AKIAIOSFODNN7EXAMPLE';

const hmac = (key, data) => createHmac('sha256', key).update(data).digest();
const sha256 = (data) => createHash('sha256').update(data).digest('hex');
const escape = (s) => encodeURIComponent(s).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);

const of3 = (url) => url.includes(`/${BUCKET}`);

/** Checks a signature of AWS Signature Version 4. */
function signed({ method, url, headers }, secret, raw) {
  const given = /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/(bedrock|s3)\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/.exec(headers.authorization ?? '');
  demand(given, 'authorization', headers.authorization);
  const [, access, day, region, service, names, signature] = given;
  if (service === 's3') equal(headers['x-amz-content-sha256'], sha256(raw), 'x-amz-content-sha256');
  for (const name of Object.keys(headers)) demand(!name.startsWith('x-amz-') || names.split(';').includes(name), 'authorization', `${name} is not signed`);
  equal(service, of3(url) ? 's3' : 'bedrock', 'service');
  equal([access, region], [ACCESS_KEY, REGION], 'credential');
  like(new RegExp(`^${day}T\\d{6}Z$`))(headers['x-amz-date'], 'x-amz-date');
  for (const name of ['host', 'x-amz-date']) demand(names.split(';').includes(name), 'authorization', `${name} is not signed`);
  const [path, query = ''] = url.split('?');
  const canonical = [
    method, service === 's3' ? path : path.split('/').map(escape).join('/'), query, // what is escaped in the path is escaped again, but for S3
    ...names.split(';').map((name) => `${name}:${headers[name].trim()}`), '', names, sha256(raw),
  ].join('\n');
  const scope = `${day}/${region}/${service}/aws4_request`;
  const key = [day, region, service, 'aws4_request'].reduce(hmac, `AWS4${secret}`);
  equal(signature, hmac(key, `AWS4-HMAC-SHA256\n${headers['x-amz-date']}\n${scope}\n${sha256(canonical)}`).toString('hex'), 'signature');
}

const thought = object({ reasoningContent: object({ reasoningText: object({ text, signature: filled }) }) });
const textBlock = object({ text: filled });
const cachePoint = object({ cachePoint: object({ type: is('default') }, { ttl: is('5m', '1h') }) });
const image = object({ image: object({ format: is('png', 'jpeg', 'gif', 'webp'), source: object({ bytes: like(/^[A-Za-z0-9+/]+=*$/) }) }) });
const message = either(
  object({ role: is('user'), content: list(either(textBlock, image, cachePoint, object({
    toolResult: object({ toolUseId: like(/^[a-zA-Z0-9_-]{1,64}$/), content: list(either(textBlock, image, object({ json: open }))) }, { status: is('success', 'error') }),
  })), 1) }),
  object({ role: is('assistant'), content: list(either(textBlock, cachePoint, thought, object({
    toolUse: object({ toolUseId: like(/^[a-zA-Z0-9_-]{1,64}$/), name: like(/^[a-zA-Z0-9_-]{1,64}$/), input: open }),
  })), 1) }),
);
const request = object({ messages: list(message, 1) }, {
  system: list(either(textBlock, cachePoint), 1),
  inferenceConfig: object({}, { maxTokens: integer, temperature: number, topP: number, stopSequences: list(filled) }),
  additionalModelRequestFields: open,
  toolConfig: object({ tools: list(either(object({ toolSpec: object({ name: filled, inputSchema: object({ json: open }) }, { description: filled, strict: boolean }) }), cachePoint), 1) }, {
    toolChoice: either(object({ auto: is({}) }), object({ any: is({}) }), object({ tool: object({ name: filled }) })),
  }),
});

function read(body) {
  const plain = (content) => (content ?? []).map((b) => b.text ?? '').join('');
  const imagesOf = (blocks) => blocks.filter((b) => b.image).map(({ image: { format, source } }) => `image/${format} ${source.bytes}`);
  const tools = body.toolConfig?.tools.flatMap((t) => t.toolSpec ?? []) ?? [];
  const said = {
    system: body.system && plain(body.system), turns: [],
    tools: tools.map(({ name, description, inputSchema }) => ({ name, description, schema: inputSchema.json })),
  };
  const thinks = ['enabled', 'adaptive'].includes(body.additionalModelRequestFields?.thinking?.type);
  let waiting = [];
  body.messages.forEach(({ role, content }, i) => {
    const at = `messages[${i}]`;
    equal(role, i % 2 === 0 ? 'user' : 'assistant', `${at}.role`);
    if (role === 'user') {
      const results = content.filter((b) => b.toolResult).map((b) => b.toolResult);
      equal(results.map((r) => r.toolUseId).sort(), waiting.sort(), `${at}: results of the calls before`);
      waiting = [];
      for (const r of results) addResult(said, { id: r.toolUseId, text: r.content.map((b) => b.text ?? (b.json ? JSON.stringify(b.json) : '')).join(''), images: imagesOf(r.content) });
      const images = imagesOf(content);
      if (content.some((b) => b.text !== undefined)) said.turns.push({ user: plain(content), images });
      else demand(images.length === 0, at, 'images without a text');
      return;
    }
    const calls = content.filter((b) => b.toolUse).map((b) => b.toolUse);
    waiting = calls.map((c) => c.toolUseId);
    equal(new Set(waiting).size, waiting.length, `${at}: ids of calls that differ`);
    const thoughts = content.filter((b) => b.reasoningContent).map((b) => b.reasoningContent.reasoningText);
    for (const t of thoughts) equal(t.signature, sign(t.text), `${at}: the signature of a thought`);
    said.turns.push({ text: plain(content), thoughts: thoughts.map((t) => t.text), calls: calls.map((c) => ({ id: c.toolUseId, name: c.name, args: c.input })) });
    const current = !body.messages.slice(i + 1).some((later) => later.role === 'user' && !later.content.some((b) => b.toolResult));
    if (thinks && calls.length > 0 && current) demand(content[0].reasoningContent, at, 'expected thinking before the calls, when thinking');
  });
  equal(waiting, [], 'calls without results');
  return { reply: replyTo(said), thinks };
}

const IDS = ['tooluse_8SyUlWO9h4mwwYwp4KfTqn', 'tooluse_kZJMlvQmRJ6eAyJE5GIl7Q', 'tooluse_Xq3pVn0sTgW2bLrY7uDc5A', 'tooluse_m9HfKe1oJzRi4BxCwQ6tNS'];
const usage = { inputTokens: USAGE.prompt - 32, outputTokens: USAGE.completion, totalTokens: USAGE.total, cacheReadInputTokens: 20, cacheWriteInputTokens: 12 };

const content = ({ thought: text, text: said, calls, before }, thinks) => [
  ...(thinks ? [{ reasoningContent: { reasoningText: { text, signature: sign(text) } } }] : []),
  { text: said },
  ...calls.map((c, i) => ({ toolUse: { toolUseId: IDS[before + i], name: c.name, input: c.args } })),
];
const reason = ({ calls }) => (calls.length > 0 ? 'tool_use' : 'end_turn');

const CRC = Array.from({ length: 256 }, (_, n) => Array(8).fill().reduce((c) => (c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1), n));
const crc32 = (bytes) => ~bytes.reduce((c, b) => CRC[(c ^ b) & 0xff] ^ (c >>> 8), -1);

/** A message of an event stream. */
function frame(headers, payload) {
  const head = Buffer.concat(Object.entries(headers).flatMap(([name, value]) => {
    const length = Buffer.alloc(2);
    length.writeUInt16BE(value.length);
    return [Buffer.from([name.length]), Buffer.from(name), Buffer.from([7]), length, Buffer.from(value)];
  }));
  const body = Buffer.from(JSON.stringify(payload));
  const u32 = (n) => { const b = Buffer.alloc(4); b.writeUInt32BE(n >>> 0); return b; };
  const prelude = Buffer.concat([u32(12 + head.length + body.length + 4), u32(head.length)]);
  const most = Buffer.concat([prelude, u32(crc32(prelude)), head, body]);
  return Buffer.concat([most, u32(crc32(most))]);
}
const event = (type, payload) => frame({ ':event-type': type, ':content-type': 'application/json', ':message-type': 'event' }, { ...payload, p: 'abcdefgh' });
const exception = (type, message) => frame({ ':exception-type': type, ':content-type': 'application/json', ':message-type': 'exception' }, { message });

function events(reply, thinks) {
  const out = [event('messageStart', { role: 'assistant' })];
  content(reply, thinks).forEach((block, contentBlockIndex) => {
    const delta = (d) => out.push(event('contentBlockDelta', { contentBlockIndex, delta: d }));
    if (block.text) for (const piece of pieces(block.text)) delta({ text: piece });
    if (block.reasoningContent) {
      const { text: thought, signature } = block.reasoningContent.reasoningText;
      for (const piece of pieces(thought)) delta({ reasoningContent: { text: piece } });
      delta({ reasoningContent: { signature } });
    }
    if (block.toolUse) {
      const { toolUseId, name, input } = block.toolUse;
      out.push(event('contentBlockStart', { contentBlockIndex, start: { toolUse: { toolUseId, name } } }));
      if (Object.keys(input).length > 0) for (const piece of ['', ...pieces(JSON.stringify(input))]) delta({ toolUse: { input: piece } });
    }
    out.push(event('contentBlockStop', { contentBlockIndex }));
  });
  // What was used comes after the end.
  return [...out, event('messageStop', { stopReason: reason(reply) }), event('metadata', { usage, metrics: { latencyMs: 1972 } })];
}

const STREAM = { 'content-type': 'application/vnd.amazon.eventstream', 'x-amzn-requestid': 'b7c5a4e2-0c1f-4d55-9d7e-1f4f6a1f3c11' };
const kinds = { 400: 'ValidationException', 429: 'ThrottlingException' };
const failure = (status, message) => ({ status, headers: { 'x-amzn-errortype': `${kinds[status]}:http://internal.amazon.com/`, ...(status === 429 && { 'retry-after': '7' }) }, body: { message } });

export const bedrock = {
  authorize: signed,
  failure,
  raw: (path) => of3(path),
  answer(method, path, body, headers) {
    if (of3(path)) return s3(method, path, body, headers);
    if (path.startsWith('/model-invocation-job')) return jobs(method, path, body, (input) => request(input, 'modelInput'));
    const [, escaped, verb] = /^\/model\/([^/]+)\/([a-z-]+)$/.exec(path) ?? [];
    demand(escaped && method === 'POST', 'path', `no ${method} ${path}`);
    const model = decodeURIComponent(escaped);
    equal(escaped, escape(model), 'the model in the path');
    if (verb.startsWith('invoke')) {
      demand(model.includes('anthropic.'), 'path', 'InvokeModel with a body of Messages');
      equal([body.anthropic_version, body.stream], ['bedrock-2023-05-31', undefined], 'version and stream of the body');
      const answer = invoked(body, model, verb === 'invoke-with-response-stream');
      if (!answer.events) return answer;
      return { headers: STREAM, events: answer.events.map((e) => event('chunk', { bytes: Buffer.from(/data: (.*)/.exec(e)[1]).toString('base64') })) };
    }
    demand(['converse', 'converse-stream'].includes(verb), 'path', `no ${verb}`);
    const script = scripted(model, { failure, begun: () => events(SECOND).slice(0, 4), breaks: [exception('modelStreamErrorException', 'The server had an error')] });
    if (script) return { ...script, headers: { ...(script.events && STREAM), ...script.headers } };
    request(body, 'body');
    const { reply, thinks } = read(body);
    if (verb === 'converse-stream') return { headers: STREAM, events: events(reply, thinks) };
    return {
      headers: { 'x-amzn-requestid': STREAM['x-amzn-requestid'] },
      body: { output: { message: { role: 'assistant', content: content(reply, thinks) } }, stopReason: reason(reply), usage, metrics: { latencyMs: 1972 } },
    };
  },
};
