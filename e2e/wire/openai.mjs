// OpenAI: Chat Completions, Responses, embeddings; and the same on Azure.
import { ANSWER, CALLS, QUESTION, TOOLS, turnOf, USAGE } from '../conversation.mjs';
import { any, boolean, by, demand, either, equal, filled, integer, is, like, list, nullable, number, object, open, text } from './shape.mjs';

const call = object({ id: filled, type: is('function'), function: object({ name: filled, arguments: text }) });
const texts = either(text, list(object({ type: is('text'), text: filled }), 1));
const message = by('role', {
  system: object({ role: any, content: texts }, { name: filled }),
  developer: object({ role: any, content: texts }, { name: filled }),
  user: object({ role: any, content: either(text, list(by('type', { text: object({ type: any, text: filled }) }), 1)) }, { name: filled }),
  // A client sends an answer back as it came, so that annotations are let through.
  assistant: object({ role: any }, { content: nullable(texts), refusal: nullable(text), tool_calls: list(call, 1), annotations: list(any), parsed: any, name: filled }),
  tool: object({ role: any, content: texts, tool_call_id: filled }, { name: filled }),
});

const request = object({ model: filled, messages: list(message, 1) }, {
  tools: list(object({ type: is('function'), function: object({ name: like(/^[a-zA-Z0-9_-]{1,64}$/) }, { description: text, parameters: open, strict: nullable(boolean) }) }), 1),
  tool_choice: either(is('auto', 'none', 'required'), object({ type: is('function'), function: object({ name: filled }) })),
  parallel_tool_calls: boolean, max_completion_tokens: integer, max_tokens: integer, temperature: number, top_p: number, n: integer,
  stop: either(filled, list(filled, 1)), stream: nullable(boolean), stream_options: object({}, { include_usage: boolean, include_obfuscation: boolean }), user: filled,
  metadata: open, reasoning_effort: filled, seed: integer, store: boolean, response_format: open,
});

const plain = (content) => (typeof content === 'string' ? content : (content ?? []).map((p) => p.text).join(''));

function chat(body, { deployment } = {}) {
  request(deployment ? { model: 'of the path', ...body } : body, 'body');
  const model = deployment ?? body.model;
  const said = { calls: [], results: [], tools: [] };
  let waiting = new Set(); // the calls that want results
  for (const m of body.messages) {
    if (m.role === 'tool') {
      demand(waiting.delete(m.tool_call_id), 'messages', `a result of ${m.tool_call_id}, which was not called just before`);
      said.results.push({ id: m.tool_call_id, text: plain(m.content) });
      continue;
    }
    demand(waiting.size === 0, 'messages', `calls without results: ${[...waiting]}`);
    if (m.role === 'system' || m.role === 'developer') said.system = plain(m.content);
    if (m.role === 'user') said.user = plain(m.content);
    for (const c of m.tool_calls ?? []) {
      waiting.add(c.id);
      said.calls.push({ id: c.id, name: c.function.name, args: JSON.parse(c.function.arguments) });
    }
    demand(m.role !== 'assistant' || m.content != null || m.tool_calls, 'messages', 'an assistant that says nothing');
  }
  demand(waiting.size === 0, 'messages', `calls without results: ${[...waiting]}`);
  for (const t of body.tools ?? []) said.tools.push({ name: t.function.name, description: t.function.description });
  checkSchemas(body.tools?.map((t) => t.function.parameters));
  return { model, said };
}

/** Checks that schemas came as they were. Some clients add the dialect's own name to them. */
export function checkSchemas(schemas) {
  schemas?.forEach((schema, i) => {
    const { $schema, ...rest } = schema ?? {};
    equal(rest, TOOLS[i].schema, `schema of ${TOOLS[i].name}`);
  });
}

const usage = {
  prompt_tokens: USAGE.prompt, completion_tokens: USAGE.completion, total_tokens: USAGE.total,
  prompt_tokens_details: { cached_tokens: 20, audio_tokens: 0 },
  completion_tokens_details: { reasoning_tokens: 7, audio_tokens: 0, accepted_prediction_tokens: 0, rejected_prediction_tokens: 0 },
};

export const CALL_IDS = ['call_MbXb0PmjRgzDFbKVbP8q4bJA', 'call_0aQ3f1S2x9yLZyWm5nWk7cTt'];
const toolCalls = () => CALLS.map((c, i) => ({ id: CALL_IDS[i], type: 'function', function: { name: c.name, arguments: JSON.stringify(c.args) } }));

const head = (model, object) => ({ id: 'chatcmpl-C1fXn7Vw', object, created: 1754000000, model: `${model}-2025-08-07`, service_tier: 'default', system_fingerprint: 'fp_44709d6fcb' });

function completion(model, turn, more = {}) {
  const message = turn === 1
    ? { role: 'assistant', content: null, tool_calls: toolCalls(), refusal: null, annotations: [] }
    : { role: 'assistant', content: ANSWER, refusal: null, annotations: [] };
  return {
    ...head(model, 'chat.completion'),
    choices: [{ index: 0, message, logprobs: null, finish_reason: turn === 1 ? 'tool_calls' : 'stop', ...more.choice }],
    usage, ...more.answer,
  };
}

/** Cuts a text into pieces of n characters. */
export const pieces = (s, n = 5) => [...s].reduce((out, c, i) => { if (i % n === 0) out.push(''); out[out.length - 1] += c; return out; }, []);

const sse = (data) => `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`;

function chunks(model, turn, { asked, filters }) {
  const of = (choices, more) => sse({ ...head(model, 'chat.completion.chunk'), choices, ...(asked && { usage: null }), obfuscation: 'x7Gh', ...more });
  const delta = (d, finish_reason = null) => of([{ index: 0, delta: d, logprobs: null, finish_reason }]);
  const out = filters ? [of([], { id: '', model: '', created: 0, prompt_filter_results: [{ prompt_index: 0, content_filter_results: SAFE }] })] : [];
  if (turn === 1) {
    out.push(delta({ role: 'assistant', content: null, refusal: null }));
    toolCalls().forEach((c, index) => {
      out.push(delta({ tool_calls: [{ index, ...c, function: { name: c.function.name, arguments: '' } }] }));
      for (const piece of pieces(c.function.arguments)) out.push(delta({ tool_calls: [{ index, function: { arguments: piece } }] }));
    });
    out.push(delta({}, 'tool_calls'));
  } else {
    out.push(delta({ role: 'assistant', content: '', refusal: null }), ...pieces(ANSWER).map((content) => delta({ content })), delta({}, 'stop'));
  }
  if (asked) out.push(of([], { usage }));
  return [...out, sse('[DONE]')];
}

const SAFE = { hate: { filtered: false, severity: 'safe' }, jailbreak: { detected: false, filtered: false } };

export const VECTORS = [[0.25, -1.5, 3], [1, 2, -0.125]];
export const base64 = (v) => Buffer.from(Float32Array.from(v).buffer).toString('base64');

/** The answer to a call for embeddings, in OpenAI's shape. */
export const embeddings = (body) => ({
  object: 'list', model: body.model, usage: { prompt_tokens: 8, total_tokens: 8 },
  data: VECTORS.map((v, index) => ({ object: 'embedding', index, embedding: body.encoding_format === 'base64' ? base64(v) : v })),
});

const embedRequest = object({ model: filled, input: either(filled, list(filled, 1)) }, { encoding_format: is('float', 'base64'), dimensions: integer, user: filled });

const failure = (status, message, error = {}) => ({ status, headers: status === 429 ? { 'retry-after': '7' } : {}, body: { error: { message, ...KINDS[status], ...error } } });
const KINDS = {
  400: { type: 'invalid_request_error', param: 'messages', code: 'invalid_value' },
  429: { type: 'tokens', param: null, code: 'rate_limit_exceeded' },
};

/** What goes wrong with a model of a name, or undefined. */
export function scripted(model, say) {
  if (model === 'limited') return say.failure(429, 'Too many tokens');
  if (model === 'refused') return say.failure(400, 'No such thing');
  if (model === 'breaking') return { events: [...say.begun(), ...say.breaks] };
  if (model === 'cut') return { events: say.begun(), broken: true };
  return undefined;
}

function chatAnswer(body, options = {}) {
  const name = options.deployment ?? body.model;
  const asked = body.stream_options?.include_usage === true;
  const script = scripted(name, {
    failure, begun: () => chunks(name, 2, { asked, ...options }).slice(0, 3),
    breaks: [sse({ error: { message: 'The server had an error', type: 'server_error', param: null, code: 'internal_error' } })],
  });
  if (script) return script;
  const { model, said } = chat(body, options);
  const turn = turnOf(said);
  if (body.stream) return { events: chunks(model, turn, { asked, ...options }) };
  const more = options.filters ? { choice: { content_filter_results: SAFE }, answer: { prompt_filter_results: [{ prompt_index: 0, content_filter_results: SAFE }] } } : {};
  return { body: completion(model, turn, more) };
}

// Responses.

const id = { id: filled, status: filled };
const item = either(
  object({ role: is('system', 'developer', 'user'), content: either(filled, list(object({ type: is('input_text'), text: filled }), 1)) }, { type: is('message') }),
  object({ role: is('assistant'), content: either(filled, list(object({ type: is('output_text'), text: filled }, { annotations: list(any), logprobs: list(any) }))) }, { type: is('message'), phase: any, ...id }),
  object({ type: is('function_call'), call_id: filled, name: filled, arguments: text }, { ...id, parsed_arguments: any }),
  object({ type: is('function_call_output'), call_id: filled, output: either(text, list(object({ type: is('input_text'), text: filled }), 1)) }, id),
  object({ type: is('reasoning'), summary: list(any) }, { ...id, encrypted_content: nullable(filled), content: list(any) }),
  object({ type: is('item_reference'), id: filled }),
);
const responsesRequest = object({ model: filled, input: either(filled, list(item, 1)) }, {
  instructions: filled, stream: boolean, store: boolean, previous_response_id: filled, include: list(filled), parallel_tool_calls: boolean,
  tool_choice: is('auto', 'required', 'none'), reasoning: open, max_output_tokens: integer, temperature: number, text: open,
  tools: list(object({ type: is('function'), name: filled, parameters: open }, { description: text, strict: nullable(boolean) }), 1),
});

const output = (turn) => (turn === 2
  ? [{ id: 'msg_2', type: 'message', status: 'completed', role: 'assistant', content: [{ type: 'output_text', text: ANSWER, annotations: [], logprobs: [] }] }]
  : [
      { id: 'rs_1', type: 'reasoning', summary: [], encrypted_content: 'gAAAAABsealed' },
      ...CALLS.map((c, i) => ({ id: `fc_${i}`, type: 'function_call', status: 'completed', call_id: CALL_IDS[i], name: c.name, arguments: JSON.stringify(c.args) })),
    ]);

const response = (body, turn, status, items) => ({
  id: `resp_${turn}`, object: 'response', created_at: 1754000000, status, background: false, error: null, incomplete_details: null,
  instructions: body.instructions ?? null, max_output_tokens: null, model: body.model, output: items, parallel_tool_calls: true, previous_response_id: body.previous_response_id ?? null,
  reasoning: { effort: 'low', summary: null }, service_tier: 'default', store: body.store ?? true, temperature: 1, text: { format: { type: 'text' }, verbosity: 'medium' },
  tool_choice: 'auto', tools: body.tools ?? [], top_p: 1, truncation: 'disabled', user: null, metadata: {},
  usage: status === 'completed'
    ? { input_tokens: USAGE.prompt, input_tokens_details: { cached_tokens: 20 }, output_tokens: USAGE.completion, output_tokens_details: { reasoning_tokens: 7 }, total_tokens: USAGE.total }
    : null,
});

function responseEvents(body, turn) {
  let number = 0;
  const event = (type, more) => `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: number++, ...more })}\n\n`;
  const out = ['created', 'in_progress'].map((n) => event(`response.${n}`, { response: response(body, turn, 'in_progress', []) }));
  output(turn).forEach((whole, output_index) => {
    const empty = { reasoning: whole, message: { ...whole, status: 'in_progress', content: [] }, function_call: { ...whole, status: 'in_progress', arguments: '' } }[whole.type];
    out.push(event('response.output_item.added', { output_index, item: empty }));
    const at = { item_id: whole.id, output_index };
    if (whole.type === 'function_call') {
      for (const delta of pieces(whole.arguments)) out.push(event('response.function_call_arguments.delta', { ...at, delta, obfuscation: 'aB3' }));
      out.push(event('response.function_call_arguments.done', { ...at, name: whole.name, arguments: whole.arguments }));
    }
    if (whole.type === 'message') {
      const part = { ...at, content_index: 0 };
      out.push(event('response.content_part.added', { ...part, part: { ...whole.content[0], text: '' } }));
      for (const delta of pieces(ANSWER)) out.push(event('response.output_text.delta', { ...part, delta, logprobs: [], obfuscation: 'aB3' }));
      out.push(event('response.output_text.done', { ...part, text: ANSWER, logprobs: [] }), event('response.content_part.done', { ...part, part: whole.content[0] }));
    }
    out.push(event('response.output_item.done', { output_index, item: whole }));
  });
  return [...out, event('response.completed', { response: response(body, turn, 'completed', output(turn)) })];
}

function responses(body) {
  const script = scripted(body.model, {
    failure, begun: () => responseEvents(body, 2).slice(0, 6),
    breaks: [`event: error\ndata: ${JSON.stringify({ type: 'error', sequence_number: 9, code: 'server_error', message: 'The server had an error', param: null })}\n\n`],
  });
  if (script) return script;
  responsesRequest(body, 'body');
  const said = { system: body.instructions, calls: [], results: [], tools: (body.tools ?? []).map(({ name, description }) => ({ name, description })) };
  const content = (c) => (typeof c === 'string' ? c : c.map((p) => p.text).join(''));
  const known = new Map(output(1).map((i) => [i.id, i]));
  let items = typeof body.input === 'string' ? [{ role: 'user', content: body.input }] : body.input;
  items = items.map((i) => (i.type === 'item_reference' ? known.get(i.id) ?? demand(false, 'input', `no item ${i.id}`) : i));
  if (body.previous_response_id) {
    equal(body.previous_response_id, 'resp_1', 'previous_response_id');
    items = [...output(1), ...items];
    said.system ??= body.instructions;
  }
  let reasoned = false;
  for (const i of items) {
    if (i.role === 'system' || i.role === 'developer') said.system = content(i.content);
    if (i.role === 'user') said.user = content(i.content);
    if (i.type === 'reasoning') reasoned = true;
    if (i.type === 'function_call') said.calls.push({ id: i.call_id, name: i.name, args: JSON.parse(i.arguments) });
    if (i.type === 'function_call_output') said.results.push({ id: i.call_id, text: content(i.output) });
  }
  demand(said.calls.length === 0 || reasoned, 'input', 'calls without the reasoning that led to them');
  if (body.previous_response_id) said.user = QUESTION;
  checkSchemas(body.tools?.map((t) => t.parameters));
  const turn = turnOf(said);
  return body.stream ? { events: responseEvents(body, turn) } : { body: response(body, turn, 'completed', output(turn)) };
}

function embed(body) {
  embedRequest(body, 'body');
  return { body: embeddings(body) };
}

export const openai = {
  credential: (key) => ['authorization', `Bearer ${key}`],
  failure,
  answer(method, path, body) {
    const serve = { 'POST /v1/chat/completions': chatAnswer, 'POST /v1/responses': responses, 'POST /v1/embeddings': embed }[`${method} ${path}`];
    demand(serve, 'path', `no ${method} ${path}`);
    return serve(body);
  },
};

const azureFailure = (status, message) => ({
  ...failure(status, message),
  body: { error: status === 429 ? { code: '429', message } : { message, type: 'invalid_request_error', param: 'messages', code: 'content_filter', status: 400, innererror: { code: 'ResponsibleAIPolicyViolation', content_filter_result: SAFE } } },
});

export const azure = {
  credential: (key) => ['api-key', key],
  failure: azureFailure,
  answer(method, path, body) {
    const url = new URL(path, 'http://azure');
    demand(method === 'POST', 'method', method);
    const [, deployment, below] = /^\/openai\/deployments\/([^/]+)\/(.*)$/.exec(url.pathname) ?? [];
    if (deployment) {
      like(/^\d{4}-\d\d-\d\d(-preview)?$/)(url.searchParams.get('api-version'), 'api-version');
      equal([...url.searchParams.keys()], ['api-version'], 'query');
      return this.serve(below, body, { deployment, filters: true });
    }
    if (url.pathname === '/openai/responses') { // beside the deployments, by the model in the body
      equal([...url.searchParams.keys()], ['api-version'], 'query');
      return this.serve('responses', body, {});
    }
    const [, rest] = /^\/openai\/v1\/(.*)$/.exec(url.pathname) ?? [];
    demand(rest, 'path', `no ${path}`);
    equal(url.search, '', 'query');
    return this.serve(rest, body, { filters: true });
  },
  serve(path, body, options) {
    const name = options.deployment ?? body.model;
    if (name === 'limited') return azureFailure(429, 'Too many tokens');
    if (name === 'refused') return azureFailure(400, 'No such thing');
    switch (path) {
      case 'chat/completions': return chatAnswer(body, options);
      case 'embeddings': return embed(body);
      case 'responses': return responses(body);
    }
    return demand(false, 'path', `no ${path}`);
  },
};
