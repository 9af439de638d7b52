// Anthropic's Messages.
import { createHash } from 'node:crypto';
import { replyTo, SECOND, USAGE } from '../conversation.mjs';
import { addResult, pieces, scripted } from './common.mjs';
import { any, boolean, by, demand, either, equal, filled, integer, is, like, list, number, object, open, text } from './shape.mjs';

const cache = { cache_control: object({ type: is('ephemeral') }, { ttl: is('5m', '1h') }) };
const textBlock = object({ type: is('text'), text: filled }, { ...cache, citations: any });
const image = object({ type: is('image'), source: by('type', {
  base64: object({ type: any, media_type: is('image/png', 'image/jpeg', 'image/gif', 'image/webp'), data: like(/^[A-Za-z0-9+/]+=*$/) }), url: object({ type: any, url: like(/^https:/) }),
}) }, cache);
const blocks = {
  user: by('type', {
    text: textBlock, image,
    tool_result: object({ type: any, tool_use_id: filled }, { content: either(text, list(either(textBlock, image))), is_error: boolean, ...cache }),
  }),
  assistant: by('type', {
    text: textBlock,
    tool_use: object({ type: any, id: like(/^[a-zA-Z0-9_-]+$/), name: like(/^[a-zA-Z0-9_-]{1,128}$/), input: open }, { ...cache, caller: any }),
    thinking: object({ type: any, thinking: text, signature: filled }),
    redacted_thinking: object({ type: any, data: filled }),
  }),
};
const message = by('role', {
  user: object({ role: any, content: either(filled, list(blocks.user, 1)) }),
  assistant: object({ role: any, content: either(filled, list(blocks.assistant, 1)) }),
});
const counted = {
  system: either(filled, list(textBlock, 1)),
  tools: list(either(
    object({ name: filled, input_schema: open }, { description: text, type: is('custom'), strict: boolean, eager_input_streaming: boolean, ...cache }),
    object({ name: is('web_search'), type: is('web_search_20250305') }, { allowed_domains: list(filled, 1), blocked_domains: list(filled, 1), max_uses: integer, user_location: open, ...cache }),
  ), 1),
  tool_choice: by('type', {
    auto: object({ type: any }, { disable_parallel_tool_use: boolean }), any: object({ type: any }, { disable_parallel_tool_use: boolean }),
    tool: object({ type: any, name: filled }, { disable_parallel_tool_use: boolean }), none: object({ type: any }),
  }),
  thinking: by('type', { enabled: object({ type: any, budget_tokens: integer }), disabled: object({ type: any }), adaptive: object({ type: any }) }),
  output_config: object({}, { effort: is('low', 'medium', 'high', 'xhigh', 'max'), format: open }),
  context_management: object({ edits: list(object({ type: is('clear_thinking_20251015', 'clear_tool_uses_20250919') }, { keep: any, trigger: open, clear_at_least: open }), 1) }),
};
const request = object({ model: filled, max_tokens: integer, messages: list(message, 1) }, {
  ...counted, stream: boolean, temperature: number, top_p: number, top_k: integer, stop_sequences: list(filled), metadata: object({}, { user_id: filled }),
});
const countRequest = object({ model: filled, messages: list(message, 1) }, counted);

/** The signature of a thought, which is checked when it comes back. */
export const sign = (thought) => `EqQBCgIYAhIM/${createHash('sha256').update(thought).digest('base64')}`;
const IDS = ['toolu_01A09q90qw90lq917835lq9', 'toolu_01T1x1fJ34qAmk2tNTrN7Up6', 'toolu_01D7FLrfh4GYq7yT1ULFeyMV', 'toolu_01BkV3c8aHnEw5r2JXq9ZsPd'];

const plain = (c) => (typeof c === 'string' ? c : (c ?? []).map((b) => b.text ?? '').join(''));
const imagesOf = (blocks) => blocks.filter((b) => b.type === 'image').map((b) => `${b.source.media_type} ${b.source.data}`);

function read(body) {
  const thinks = ['enabled', 'adaptive'].includes(body.thinking?.type);
  if (thinks && body.max_tokens !== undefined) {
    if (body.thinking.type === 'enabled') demand(body.thinking.budget_tokens >= 1024 && body.thinking.budget_tokens < body.max_tokens, 'thinking', 'budget_tokens must be 1024 or more and less than max_tokens');
    demand((body.temperature ?? 1) === 1, 'temperature', 'must be 1 when thinking');
    demand(['auto', 'none', undefined].includes(body.tool_choice?.type), 'tool_choice', 'forced when thinking');
  }
  const marks = JSON.stringify(body).match(/"cache_control":/g) ?? [];
  demand(marks.length <= 4, 'cache_control', `a maximum of 4 blocks, found ${marks.length}`);
  const said = { system: plain(body.system), turns: [], tools: (body.tools ?? []).map(({ name, description, input_schema: schema }) => ({ name, description, schema })) };
  let waiting = [];
  body.messages.forEach((m, i) => {
    equal(m.role, i % 2 === 0 ? 'user' : 'assistant', `messages[${i}].role`);
    const content = typeof m.content === 'string' ? [{ type: 'text', text: m.content }] : m.content;
    const of = (...types) => content.filter((b) => types.includes(b.type));
    if (m.role === 'user') {
      const results = of('tool_result');
      equal(content.slice(0, results.length), results, `messages[${i}]: results come first`);
      equal(results.map((b) => b.tool_use_id).sort(), waiting.sort(), `messages[${i}]: results of the calls before`);
      waiting = [];
      for (const b of results) addResult(said, { id: b.tool_use_id, text: plain(b.content), images: imagesOf(Array.isArray(b.content) ? b.content : []) });
      if (results.length < content.length) said.turns.push({ user: plain(of('text')), images: imagesOf(content) });
      return;
    }
    const calls = of('tool_use');
    waiting = calls.map((b) => b.id);
    equal(new Set(waiting).size, waiting.length, `messages[${i}]: ids of calls that differ`);
    said.turns.push({ text: plain(of('text')), calls: calls.map((b) => ({ id: b.id, name: b.name, args: b.input })), thoughts: of('thinking').map((b) => b.thinking) });
    for (const b of of('thinking')) equal(b.signature, sign(b.thinking), `messages[${i}]: the signature of a thought`);
    // Of the turns before the user's last words no thoughts are needed.
    const current = !body.messages.slice(i + 1).some((later) => later.role === 'user' && !(Array.isArray(later.content) && later.content.some((b) => b.type === 'tool_result')));
    if (thinks && calls.length > 0 && current) demand(['thinking', 'redacted_thinking'].includes(content[0].type), `messages[${i}]`, 'expected thinking before the calls, when thinking');
  });
  equal(waiting, [], 'calls without results');
  return { reply: replyTo(said), thinks };
}

const figures = (output_tokens) => ({
  input_tokens: USAGE.prompt - 32, cache_creation_input_tokens: 12, cache_read_input_tokens: 20, cache_creation: { ephemeral_5m_input_tokens: 12, ephemeral_1h_input_tokens: 0 }, output_tokens, service_tier: 'standard',
});

const content = ({ thought, text: said, calls, before }, thinks) => [
  ...(thinks ? [{ type: 'thinking', thinking: thought, signature: sign(thought) }] : []),
  { type: 'text', text: said },
  ...calls.map((c, i) => ({ type: 'tool_use', id: IDS[before + i], name: c.name, input: c.args })),
];

const head = (model) => ({ id: 'msg_01XFDUDYJgAACzvnptvVoYEL', type: 'message', role: 'assistant', model });
const reason = ({ calls }) => (calls.length > 0 ? 'tool_use' : 'end_turn');

function events(model, reply, thinks) {
  const event = (type, more) => `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}${' '.repeat(4)}\n\n`;
  const out = [event('message_start', { message: { ...head(model), content: [], stop_reason: null, stop_sequence: null, usage: figures(1) } })];
  content(reply, thinks).forEach((block, index) => {
    const [empty, deltas] = {
      text: () => [{ ...block, text: '' }, pieces(block.text).map((t) => ({ type: 'text_delta', text: t }))],
      thinking: () => [{ ...block, thinking: '', signature: '' }, [...pieces(block.thinking).map((t) => ({ type: 'thinking_delta', thinking: t })), { type: 'signature_delta', signature: block.signature }]],
      // A call without arguments has no piece of them.
      tool_use: () => [{ ...block, input: {} }, Object.keys(block.input).length === 0 ? [] : ['', ...pieces(JSON.stringify(block.input))].map((t) => ({ type: 'input_json_delta', partial_json: t }))],
    }[block.type]();
    out.push(event('content_block_start', { index, content_block: empty }), event('ping', {}));
    for (const delta of deltas) out.push(event('content_block_delta', { index, delta }));
    out.push(event('content_block_stop', { index }));
  });
  out.push(event('message_delta', { delta: { stop_reason: reason(reply), stop_sequence: null }, usage: figures(USAGE.completion) }), event('message_stop', {}));
  return out;
}

const invokeRequest = object({ anthropic_version: is('bedrock-2023-05-31', 'vertex-2023-10-16'), max_tokens: integer, messages: list(message, 1) }, {
  ...counted, stream: is(true), temperature: number, top_p: number, top_k: integer, stop_sequences: list(filled), metadata: object({}, { user_id: filled }), anthropic_beta: list(filled, 1),
});

/** The answer where another provider sells the model: of a body without the model. */
export function invoked(body, model, stream) {
  invokeRequest(body, 'body');
  const { reply, thinks } = read(body);
  return stream ? { events: events(model, reply, thinks) } : { body: whole(model, reply, thinks) };
}

const whole = (model, reply, thinks) => ({ ...head(model), content: content(reply, thinks), stop_reason: reason(reply), stop_sequence: null, usage: figures(USAGE.completion) });

const kinds = { 400: 'invalid_request_error', 429: 'rate_limit_error' };
const failure = (status, message) => ({
  status, headers: status === 429 ? { 'retry-after': '7' } : {}, body: { type: 'error', error: { type: kinds[status], message }, request_id: 'req_011CSHoEeqs5C35K2UUqR7Fy' },
});

export const anthropic = {
  credential: (key) => ['x-api-key', key],
  failure,
  answer(method, path, body, headers) {
    like(/^20\d\d-\d\d-\d\d$/)(headers['anthropic-version'], 'anthropic-version');
    if (`${method} ${path.replace('?beta=true', '')}` === 'POST /v1/messages/count_tokens') {
      countRequest(body, 'body');
      read(body);
      return { body: { input_tokens: USAGE.prompt } };
    }
    equal(`${method} ${path.replace('?beta=true', '')}`, 'POST /v1/messages', 'path');
    const script = scripted(body.model, {
      failure, begun: () => events(body.model, SECOND, false).slice(0, 5),
      breaks: [`event: error\ndata: ${JSON.stringify({ type: 'error', error: { type: 'overloaded_error', message: 'The server had an error' } })}\n\n`],
    });
    if (script) return script;
    request(body, 'body');
    const { reply, thinks } = read(body);
    if (body.stream) return { events: events(body.model, reply, thinks) };
    return { body: whole(body.model, reply, thinks) };
  },
};
