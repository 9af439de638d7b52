// Mistral AI, which refuses every member that it does not know, and ids of calls that
// are not its own form; models that reason answer with arrays of parts.
import { replyTo, SECOND, USAGE } from '../conversation.mjs';
import { addResult, embeddings, imagesOf, pieces, scripted } from './common.mjs';
import { any, boolean, by, demand, either, equal, filled, integer, is, like, list, nullable, number, object, open, text } from './shape.mjs';

const textPart = object({ type: is('text'), text: filled });
const dataURL = like(/^data:image\/(png|jpeg|gif|webp);base64,/);
const imagePart = object({ type: is('image_url'), image_url: either(dataURL, object({ url: dataURL }, { detail: is('auto', 'low', 'high') })) });
const texts = either(text, list(textPart, 1));
const id = like(/^[a-zA-Z0-9]{9}$/);
const thinkingPart = object({ type: is('thinking'), thinking: list(textPart, 1) }, { closed: boolean, signature: filled });
const message = by('role', {
  system: object({ role: any, content: either(filled, list(textPart, 1)) }),
  user: object({ role: any, content: either(text, list(either(textPart, imagePart), 1)) }),
  assistant: object({ role: any }, {
    content: either(is(null), text, list(either(textPart, thinkingPart), 1)), prefix: is(false),
    tool_calls: nullable(list(object({ id, function: object({ name: filled, arguments: either(text, open) }) }, { type: is('function'), index: integer }), 1)),
  }),
  tool: object({ role: any, content: either(text, list(either(textPart, imagePart), 1)), tool_call_id: id }, { name: filled }),
});
const request = object({ model: filled, messages: list(message, 1) }, {
  tools: list(object({ type: is('function'), function: object({ name: filled, parameters: open }, { description: text, strict: boolean }) }), 1),
  tool_choice: either(is('auto', 'any', 'required', 'none'), object({ type: is('function'), function: object({ name: filled }) })),
  parallel_tool_calls: boolean, temperature: nullable(number), top_p: number, max_tokens: integer, stream: boolean, stop: either(filled, list(filled)), random_seed: integer,
  response_format: open, presence_penalty: number, frequency_penalty: number, n: integer, prediction: open, safe_prompt: boolean, prompt_mode: filled,
  metadata: open, reasoning_effort: filled,
});

const plain = (c) => (typeof c === 'string' ? c : (c ?? []).map((p) => p.text ?? '').join(''));

function read(body) {
  const said = { turns: [], tools: (body.tools ?? []).map((t) => ({ name: t.function.name, description: t.function.description, schema: t.function.parameters })) };
  let waiting = new Set();
  body.messages.forEach((m, i) => {
    const at = `messages[${i}]`;
    if (m.role === 'tool') {
      demand(waiting.delete(m.tool_call_id), at, `a result of ${m.tool_call_id}, which was not called just before`);
      addResult(said, { id: m.tool_call_id, name: m.name, text: plain(m.content), images: imagesOf(m.content) });
      return;
    }
    demand(waiting.size === 0, at, 'not the same number of function calls and responses');
    demand(m.role !== 'system' || i === 0, at, "unexpected role 'system'");
    demand(m.role !== 'user' || body.messages[i - 1]?.role !== 'tool', at, "unexpected role 'user' after role 'tool'");
    if (m.role === 'system') said.system = plain(m.content);
    if (m.role === 'user') said.turns.push({ user: plain(m.content), images: imagesOf(m.content) });
    if (m.role !== 'assistant') return;
    demand(m.tool_calls || (m.content ?? '') !== '', at, 'an assistant message must have either content or tool_calls');
    for (const c of m.tool_calls ?? []) waiting.add(c.id);
    equal(waiting.size, m.tool_calls?.length ?? 0, `${at}: ids of calls that differ`);
    const thoughts = Array.isArray(m.content) ? m.content.filter((p) => p.type === 'thinking') : [];
    said.turns.push({
      text: plain(m.content), thoughts: thoughts.map((t) => t.thinking.map((p) => p.text).join('')),
      calls: (m.tool_calls ?? []).map((c) => ({ id: c.id, name: c.function.name, args: typeof c.function.arguments === 'string' ? JSON.parse(c.function.arguments) : c.function.arguments })),
    });
  });
  demand(waiting.size === 0, 'messages', 'not the same number of function calls and responses');
  demand(['user', 'tool'].includes(body.messages.at(-1).role), 'messages', 'expected the last role to be user or tool');
  return replyTo(said);
}

const IDS = ['FI5qQGzDE', 'k0Wm29aBz', 'R7tYpLq2X', 'v4NcJh8Us'];
const usage = { prompt_tokens: USAGE.prompt, completion_tokens: USAGE.completion, total_tokens: USAGE.total, num_cached_tokens: 20, prompt_tokens_details: { cached_tokens: 20 } };
const reasons = (model) => model.startsWith('magistral');
const thinking = (t) => ({ type: 'thinking', thinking: [{ type: 'text', text: t }] });

const toolCalls = ({ calls, before }) => calls.map((c, index) => ({ id: IDS[before + index], function: { name: c.name, arguments: JSON.stringify(c.args) }, index }));
const head = (model, object) => ({ id: '20c656d7c70e4362858160d9d241ce92', object, created: 1766496292, model });

function whole(model, reply) {
  const called = reply.calls.length > 0;
  const said = called ? '' : reply.text;
  const content = reasons(model) ? [{ ...thinking(reply.thought), closed: true }, ...(said ? [{ type: 'text', text: said }] : [])] : said;
  return {
    ...head(model, 'chat.completion'), usage,
    choices: [{ index: 0, message: { role: 'assistant', content, tool_calls: called ? toolCalls(reply) : null }, finish_reason: called ? 'tool_calls' : 'stop' }],
  };
}

const sse = (data) => `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`;

function events(model, reply) {
  const chunk = (d, finish_reason = null, more = {}) => sse({ ...head(model, 'chat.completion.chunk'), choices: [{ index: 0, delta: d, finish_reason }], ...more });
  const out = [chunk({ role: 'assistant', content: '' })];
  if (reasons(model)) for (const piece of pieces(reply.thought)) out.push(chunk({ content: [thinking(piece)] }));
  // Calls come whole, in the chunk that ends the answer.
  if (reply.calls.length > 0) return [...out, chunk({ content: '', tool_calls: toolCalls(reply) }, 'tool_calls', { usage }), sse('[DONE]')];
  const said = pieces(reply.text);
  for (const piece of said) out.push(chunk({ content: reasons(model) && piece === said[0] ? [{ type: 'text', text: piece }] : piece }));
  return [...out, chunk({ content: '' }, 'stop', { usage }), sse('[DONE]')];
}

const failure = (status, message) => ({
  429: { status, headers: { 'retry-after': '7' }, body: { object: 'error', message, type: 'rate_limited', param: null, code: '1300' } },
  400: { status, body: { object: 'error', message: { detail: [{ type: 'value_error', loc: ['body', 'messages'], msg: message, input: [] }] }, type: 'invalid_request_error', param: null, code: null } },
}[status]);

const embedRequest = object({ model: filled, input: either(filled, list(filled, 1)) }, {
  encoding_format: is('float', 'base64'), output_dimension: integer, output_dtype: filled, metadata: open,
});

export const mistral = {
  credential: (key) => ['authorization', `Bearer ${key}`],
  failure,
  answer(method, path, body) {
    if (`${method} ${path}` === 'POST /v1/embeddings') {
      embedRequest(body, 'body');
      return { body: { id: 'e', ...embeddings(body) } };
    }
    equal(`${method} ${path}`, 'POST /v1/chat/completions', 'path');
    const script = scripted(body.model, {
      failure, begun: () => events(body.model, SECOND).slice(0, 4),
      breaks: [sse({ object: 'error', message: 'The server had an error', type: 'service_unavailable', param: null, code: '3000' })],
    });
    if (script) return script;
    request(body, 'body');
    const reply = read(body);
    return body.stream ? { events: events(body.model, reply) } : { body: whole(body.model, reply) };
  },
};
