// Cohere, version 2 of its API.
import { ANSWER, CALLS, THOUGHT, turnOf, USAGE } from '../conversation.mjs';
import { checkSchemas, pieces, scripted, VECTORS } from './openai.mjs';
import { any, boolean, by, demand, either, equal, filled, integer, is, list, number, object, open, text } from './shape.mjs';

const texts = either(text, list(object({ type: is('text'), text: filled }), 1));
const message = by('role', {
  system: object({ role: any, content: texts }),
  user: object({ role: any, content: texts }),
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
const IDS = ['get_weather_9gpb31r7h7mj', 'get_time_1k6b2c9d8e7f'];

function read(body) {
  const said = { calls: [], results: [], tools: (body.tools ?? []).map((t) => ({ name: t.function.name, description: t.function.description })) };
  let waiting = new Set();
  body.messages.forEach((m, i) => {
    if (m.role === 'tool') {
      demand(waiting.delete(m.tool_call_id), `messages[${i}]`, `a result of ${m.tool_call_id}, which was not called just before`);
      said.results.push({ id: m.tool_call_id, text: plain(m.content) });
      return;
    }
    demand(waiting.size === 0, `messages[${i}]`, 'calls without results');
    if (m.role === 'system') said.system = plain(m.content);
    if (m.role === 'user') said.user = plain(m.content);
    for (const c of m.tool_calls ?? []) {
      waiting.add(c.id);
      said.calls.push({ id: c.id, name: c.function.name, args: JSON.parse(c.function.arguments) });
    }
  });
  demand(waiting.size === 0, 'messages', 'calls without results');
  checkSchemas(body.tools?.map((t) => t.function.parameters));
  return turnOf(said);
}

const usage = { billed_units: { input_tokens: 40, output_tokens: 12 }, tokens: { input_tokens: USAGE.prompt, output_tokens: USAGE.completion }, cached_tokens: 20 };
const calls = () => CALLS.map((c, i) => ({ id: IDS[i], type: 'function', function: { name: c.name, arguments: JSON.stringify(c.args) } }));
const PLAN = 'I will use get_weather and get_time.';
const thinks = (model) => model.includes('reasoning');

function whole(model, turn) {
  const thought = thinks(model) ? [{ type: 'thinking', thinking: THOUGHT }] : [];
  const message = turn === 1
    ? { role: 'assistant', ...(thought.length > 0 ? { content: thought } : { tool_plan: PLAN }), tool_calls: calls() }
    : { role: 'assistant', content: [...thought, { type: 'text', text: ANSWER }] };
  return { id: '5481bf9b-876e-487f-88fe-6b59a9a5b96c', message, finish_reason: turn === 1 ? 'TOOL_CALL' : 'COMPLETE', usage };
}

const event = (type, more) => `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
const delta = (message) => ({ delta: { message } });

function events(model, turn) {
  const { id, message, finish_reason } = whole(model, turn);
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
      failure, begun: () => events(body.model, 2).slice(0, 4),
      breaks: [event('message-end', { delta: { error: 'The server had an error', finish_reason: 'ERROR', usage } })],
    });
    if (script) return script;
    request(body, 'body');
    const turn = read(body);
    return body.stream ? { events: events(body.model, turn) } : { body: whole(body.model, turn) };
  },
};
