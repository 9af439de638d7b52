// Cohere, version 2 of its API.
import { replyTo, SECOND, USAGE } from '../conversation.mjs';
import { addResult, imagesOf, imageURL, pieces, scripted, VECTORS } from './common.mjs';
import { any, boolean, by, demand, either, equal, filled, integer, is, list, number, object, open, text } from './shape.mjs';

const texts = either(text, list(object({ type: is('text'), text: filled }), 1));
const message = by('role', {
  system: object({ role: any, content: texts }),
  user: object({ role: any, content: either(text, list(by('type', { text: object({ type: any, text: filled }), image_url: imageURL }), 1)) }),
  assistant: object({ role: any }, {
    content: either(text, is(null), list(either(object({ type: is('text'), text: filled }), object({ type: is('thinking'), thinking: filled })), 1)),
    tool_calls: list(object({ id: filled, type: is('function'), function: object({ name: filled, arguments: text }) }), 1), tool_plan: text, citations: any,
  }),
  tool: object({ role: any, tool_call_id: filled, content: either(text, list(either(object({ type: is('text'), text: filled }), object({ type: is('document'), document: open })), 1)) }),
});
const request = object({ model: filled, messages: list(message, 1) }, {
  tools: list(object({ type: is('function'), function: object({ name: filled, parameters: open }, { description: text }) }), 1),
  tool_choice: is('REQUIRED', 'NONE'), max_tokens: integer, temperature: number, p: number, k: integer, stop_sequences: list(filled), seed: integer,
  frequency_penalty: number, presence_penalty: number, stream: boolean, thinking: open, response_format: open, strict_tools: boolean,
  documents: list(any), citation_options: open, safety_mode: filled, logprobs: boolean,
});

const plain = (c) => (typeof c === 'string' ? c : (c ?? []).map((p) => p.text ?? '').join(''));
const IDS = ['get_weather_9gpb31r7h7mj', 'get_time_1k6b2c9d8e7f', 'get_weather_3t5v8x0z2b4d', 'get_weather_6f7h9k1m3p5r'];

const sees = (model) => /vision|plus/.test(model);

function read(body) {
  const said = { turns: [], tools: (body.tools ?? []).map((t) => ({ name: t.function.name, description: t.function.description, schema: t.function.parameters })) };
  let waiting = new Set();
  body.messages.forEach((m, i) => {
    if (m.role === 'tool') {
      demand(waiting.delete(m.tool_call_id), `messages[${i}]`, `a result of ${m.tool_call_id}, which was not called just before`);
      addResult(said, { id: m.tool_call_id, text: plain(m.content) });
      return;
    }
    demand(waiting.size === 0, `messages[${i}]`, 'calls without results');
    if (m.role === 'system') said.system = plain(m.content);
    if (m.role === 'user') said.turns.push({ user: plain(m.content), images: imagesOf(m.content) });
    if (m.role !== 'assistant') return;
    for (const c of m.tool_calls ?? []) waiting.add(c.id);
    equal(waiting.size, m.tool_calls?.length ?? 0, `messages[${i}]: ids of calls that differ`);
    said.turns.push({
      text: plain(m.content), thoughts: Array.isArray(m.content) ? m.content.flatMap((p) => p.thinking ?? []) : [],
      calls: (m.tool_calls ?? []).map((c) => ({ id: c.id, name: c.function.name, args: JSON.parse(c.function.arguments) })),
    });
  });
  demand(waiting.size === 0, 'messages', 'calls without results');
  return replyTo(said, !sees(body.model));
}

const usage = { billed_units: { input_tokens: 40, output_tokens: 12 }, tokens: { input_tokens: USAGE.prompt, output_tokens: USAGE.completion }, cached_tokens: 20 };
const PLAN = 'I will use get_weather and get_time.';
const thinks = (model) => /reasoning|plus/.test(model);

function whole(model, { thought, text: said, calls, before }) {
  const thoughts = thinks(model) ? [{ type: 'thinking', thinking: thought }] : [];
  const toolCalls = calls.map((c, i) => ({ id: IDS[before + i], type: 'function', function: { name: c.name, arguments: JSON.stringify(c.args) } }));
  const message = calls.length > 0
    ? { role: 'assistant', ...(thoughts.length > 0 ? { content: thoughts } : { tool_plan: PLAN }), tool_calls: toolCalls }
    : { role: 'assistant', content: [...thoughts, { type: 'text', text: said }] };
  return { id: '5481bf9b-876e-487f-88fe-6b59a9a5b96c', message, finish_reason: calls.length > 0 ? 'TOOL_CALL' : 'COMPLETE', usage };
}

const event = (type, more) => `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
const delta = (message) => ({ delta: { message } });

function events(model, reply) {
  const { id, message, finish_reason } = whole(model, reply);
  const out = [event('message-start', { id, ...delta({ role: 'assistant', content: [], tool_plan: '', tool_calls: [], citations: [] }) })];
  for (const piece of pieces(message.tool_plan ?? '')) out.push(event('tool-plan-delta', delta({ tool_plan: piece })));
  (message.content ?? []).forEach((block, index) => {
    const name = block.type;
    out.push(event('content-start', { index, ...delta({ content: { type: name, [name]: '' } }) }));
    for (const piece of pieces(block[name])) out.push(event('content-delta', { index, ...delta({ content: { [name]: piece } }) }));
    out.push(event('content-end', { index }));
  });
  (message.tool_calls ?? []).forEach((c, index) => {
    out.push(event('tool-call-start', { index, ...delta({ tool_calls: { ...c, function: { name: c.function.name, arguments: '' } } }) }));
    for (const piece of pieces(c.function.arguments)) out.push(event('tool-call-delta', { index, ...delta({ tool_calls: { function: { arguments: piece } } }) }));
    out.push(event('tool-call-end', { index }));
  });
  return [...out, event('message-end', { delta: { finish_reason, usage } }), 'data: [DONE]\n\n'];
}

const failure = (status, message) => ({ status, headers: status === 429 ? { 'retry-after': '7' } : {}, body: { id: '8b1f6f0e', message } });

const embedRequest = object({ model: filled, texts: list(filled, 1), input_type: is('search_document', 'search_query', 'classification', 'clustering'), embedding_types: is(['float']) }, { output_dimension: integer, truncate: filled });

export const cohere = {
  credential: (key) => ['authorization', `Bearer ${key}`],
  failure,
  answer(method, path, body) {
    if (`${method} ${path}` === 'POST /v2/embed') {
      embedRequest(body, 'body');
      return { body: { id: 'e', embeddings: { float: VECTORS }, texts: body.texts, meta: { api_version: { version: '2' }, billed_units: { input_tokens: 8 } }, response_type: 'embeddings_by_type' } };
    }
    equal(`${method} ${path}`, 'POST /v2/chat', 'path');
    const script = scripted(body.model, {
      failure, begun: () => events(body.model, SECOND).slice(0, 4),
      breaks: [event('message-end', { delta: { error: 'The server had an error', finish_reason: 'ERROR', usage } })],
    });
    if (script) return script;
    request(body, 'body');
    const reply = read(body);
    return body.stream ? { events: events(body.model, reply) } : { body: whole(body.model, reply) };
  },
};
