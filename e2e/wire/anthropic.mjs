// Anthropic's Messages.
import { ANSWER, CALLS, PREAMBLE, THOUGHT, turnOf, USAGE } from '../conversation.mjs';
import { checkSchemas, pieces, scripted } from './openai.mjs';
import { any, boolean, by, demand, either, equal, filled, integer, is, like, list, number, object, open, text } from './shape.mjs';

const cache = { cache_control: object({ type: is('ephemeral') }, { ttl: is('5m', '1h') }) };
const textBlock = object({ type: is('text'), text: filled }, { ...cache, citations: any });
const blocks = {
  user: by('type', {
    text: textBlock,
    tool_result: object({ type: any, tool_use_id: filled }, { content: either(text, list(textBlock)), is_error: boolean, ...cache }),
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
  tools: list(object({ name: filled, input_schema: open }, { description: text, type: is('custom'), strict: boolean, eager_input_streaming: boolean, ...cache }), 1),
  tool_choice: by('type', {
    auto: object({ type: any }, { disable_parallel_tool_use: boolean }), any: object({ type: any }, { disable_parallel_tool_use: boolean }),
    tool: object({ type: any, name: filled }, { disable_parallel_tool_use: boolean }), none: object({ type: any }),
  }),
  thinking: by('type', { enabled: object({ type: any, budget_tokens: integer }), disabled: object({ type: any }), adaptive: object({ type: any }) }),
  output_config: open,
};
const request = object({ model: filled, max_tokens: integer, messages: list(message, 1) }, {
  ...counted, stream: boolean, temperature: number, top_p: number, top_k: integer, stop_sequences: list(filled), metadata: object({}, { user_id: filled }),
});
const countRequest = object({ model: filled, messages: list(message, 1) }, counted);

export const SIGNATURE = 'EqQBCgIYAhIM/sealed+thought==';
const IDS = ['toolu_01A09q90qw90lq917835lq9', 'toolu_01T1x1fJ34qAmk2tNTrN7Up6'];

function read(body) {
  const thinks = body.thinking?.type === 'enabled';
  if (thinks && body.max_tokens !== undefined) {
    demand(body.thinking.budget_tokens >= 1024 && body.thinking.budget_tokens < body.max_tokens, 'thinking', 'budget_tokens must be 1024 or more and less than max_tokens');
    demand((body.temperature ?? 1) === 1, 'temperature', 'must be 1 when thinking');
    demand(['auto', 'none', undefined].includes(body.tool_choice?.type), 'tool_choice', 'forced when thinking');
  }
  const plain = (c) => (typeof c === 'string' ? c : (c ?? []).map((b) => b.text ?? '').join(''));
  const said = { system: plain(body.system), calls: [], results: [], tools: (body.tools ?? []).map(({ name, description }) => ({ name, description })) };
  let waiting = [];
  body.messages.forEach((m, i) => {
    equal(m.role, i % 2 === 0 ? 'user' : 'assistant', `messages[${i}].role`);
    const content = typeof m.content === 'string' ? [{ type: 'text', text: m.content }] : m.content;
    if (m.role === 'user') {
      const results = content.filter((b) => b.type === 'tool_result');
      equal(content.slice(0, results.length), results, `messages[${i}]: results come first`);
      equal(results.map((b) => b.tool_use_id).sort(), waiting.sort(), `messages[${i}]: results of the calls before`);
      waiting = [];
      for (const b of content) {
        if (b.type === 'tool_result') said.results.push({ id: b.tool_use_id, text: plain(b.content) });
        else said.user = (said.user ?? '') + b.text;
      }
      return;
    }
    const calls = content.filter((b) => b.type === 'tool_use');
    waiting = calls.map((b) => b.id);
    for (const b of calls) said.calls.push({ id: b.id, name: b.name, args: b.input });
    for (const b of content) if (b.type === 'thinking') equal(b, { type: 'thinking', thinking: THOUGHT, signature: SIGNATURE }, `messages[${i}]: a thought`);
    if (thinks && calls.length > 0) {
      demand(content[0].type === 'thinking', `messages[${i}]`, 'expected thinking before the calls, when thinking');
      equal(content[1], { type: 'text', text: PREAMBLE }, `messages[${i}]: the text between thought and calls`);
    }
  });
  equal(waiting, [], 'calls without results');
  checkSchemas(body.tools?.map((t) => t.input_schema));
  return { turn: turnOf(said), thinks };
}

const figures = (output_tokens) => ({
  input_tokens: USAGE.prompt - 32, cache_creation_input_tokens: 12, cache_read_input_tokens: 20, cache_creation: { ephemeral_5m_input_tokens: 12, ephemeral_1h_input_tokens: 0 }, output_tokens, service_tier: 'standard',
});

const content = (turn, thinks) => (turn === 2
  ? [{ type: 'text', text: ANSWER }]
  : [
      ...(thinks ? [{ type: 'thinking', thinking: THOUGHT, signature: SIGNATURE }] : []),
      { type: 'text', text: PREAMBLE },
      ...CALLS.map((c, i) => ({ type: 'tool_use', id: IDS[i], name: c.name, input: c.args })),
    ]);

const head = (model) => ({ id: 'msg_01XFDUDYJgAACzvnptvVoYEL', type: 'message', role: 'assistant', model });
const reason = (turn) => (turn === 1 ? 'tool_use' : 'end_turn');

function events(model, turn, thinks) {
  const event = (type, more) => `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}${' '.repeat(4)}\n\n`;
  const out = [event('message_start', { message: { ...head(model), content: [], stop_reason: null, stop_sequence: null, usage: figures(1) } })];
  content(turn, thinks).forEach((block, index) => {
    const [empty, deltas] = {
      text: () => [{ ...block, text: '' }, pieces(block.text).map((t) => ({ type: 'text_delta', text: t }))],
      thinking: () => [{ ...block, thinking: '', signature: '' }, [...pieces(block.thinking).map((t) => ({ type: 'thinking_delta', thinking: t })), { type: 'signature_delta', signature: SIGNATURE }]],
      // A call without arguments has no piece of them.
      tool_use: () => [{ ...block, input: {} }, Object.keys(block.input).length === 0 ? [] : ['', ...pieces(JSON.stringify(block.input))].map((t) => ({ type: 'input_json_delta', partial_json: t }))],
    }[block.type]();
    out.push(event('content_block_start', { index, content_block: empty }), event('ping', {}));
    for (const delta of deltas) out.push(event('content_block_delta', { index, delta }));
    out.push(event('content_block_stop', { index }));
  });
  out.push(event('message_delta', { delta: { stop_reason: reason(turn), stop_sequence: null }, usage: figures(USAGE.completion) }), event('message_stop', {}));
  return out;
}

const invokeRequest = object({ anthropic_version: is('bedrock-2023-05-31'), max_tokens: integer, messages: list(message, 1) }, {
  ...counted, temperature: number, top_p: number, top_k: integer, stop_sequences: list(filled), metadata: object({}, { user_id: filled }), anthropic_beta: list(filled, 1),
});

/** The answer where another provider sells the model: of a body without model and stream. */
export function invoked(body, model, stream) {
  invokeRequest(body, 'body');
  const { turn, thinks } = read(body);
  return stream ? { events: events(model, turn, thinks) } : { body: whole(model, turn, thinks) };
}

const whole = (model, turn, thinks) => ({ ...head(model), content: content(turn, thinks), stop_reason: reason(turn), stop_sequence: null, usage: figures(USAGE.completion) });

const kinds = { 400: 'invalid_request_error', 429: 'rate_limit_error' };
const failure = (status, message) => ({
  status, headers: status === 429 ? { 'retry-after': '7' } : {}, body: { type: 'error', error: { type: kinds[status], message }, request_id: 'req_011CSHoEeqs5C35K2UUqR7Fy' },
});

export const anthropic = {
  credential: (key) => ['x-api-key', key],
  failure,
  answer(method, path, body, headers) {
    like(/^20\d\d-\d\d-\d\d$/)(headers['anthropic-version'], 'anthropic-version');
    if (`${method} ${path}` === 'POST /v1/messages/count_tokens') {
      countRequest(body, 'body');
      read(body);
      return { body: { input_tokens: USAGE.prompt } };
    }
    equal(`${method} ${path}`, 'POST /v1/messages', 'path');
    const script = scripted(body.model, {
      failure, begun: () => events(body.model, 2, false).slice(0, 5),
      breaks: [`event: error\ndata: ${JSON.stringify({ type: 'error', error: { type: 'overloaded_error', message: 'The server had an error' } })}\n\n`],
    });
    if (script) return script;
    request(body, 'body');
    const { turn, thinks } = read(body);
    if (body.stream) return { events: events(body.model, turn, thinks) };
    return { body: whole(body.model, turn, thinks) };
  },
};
