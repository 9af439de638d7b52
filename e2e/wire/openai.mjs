// OpenAI: Chat Completions, embeddings, and Responses of responses.mjs; and the same on Azure.
import { replyTo, SECOND, USAGE } from '../conversation.mjs';
import { addResult, CALL_IDS, embeddings, failure, imagesOf, imageURL, pieces, scripted } from './common.mjs';
import { responses } from './responses.mjs';
import { any, boolean, by, demand, either, equal, filled, integer, is, like, list, nullable, number, object, open, text } from './shape.mjs';

const call = object({ id: filled, type: is('function'), function: object({ name: filled, arguments: text }) });
const texts = either(text, list(object({ type: is('text'), text: filled }), 1));
const message = by('role', {
  system: object({ role: any, content: texts }, { name: filled }),
  developer: object({ role: any, content: texts }, { name: filled }),
  user: object({ role: any, content: either(text, list(by('type', { text: object({ type: any, text: filled }), image_url: imageURL }), 1)) }, { name: filled }),
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

const plain = (content) => (typeof content === 'string' ? content : (content ?? []).map((p) => p.text ?? '').join(''));
function chat(body, { deployment } = {}) {
  request(deployment ? { model: 'of the path', ...body } : body, 'body');
  const model = deployment ?? body.model;
  const said = { turns: [], tools: (body.tools ?? []).map((t) => ({ name: t.function.name, description: t.function.description, schema: t.function.parameters })) };
  let waiting = new Set(); // the calls that want results
  for (const m of body.messages) {
    if (m.role === 'tool') {
      demand(waiting.delete(m.tool_call_id), 'messages', `a result of ${m.tool_call_id}, which was not called just before`);
      addResult(said, { id: m.tool_call_id, text: plain(m.content) });
      continue;
    }
    demand(waiting.size === 0, 'messages', `calls without results: ${[...waiting]}`);
    if (m.role === 'system' || m.role === 'developer') said.system = plain(m.content);
    if (m.role === 'user') said.turns.push({ user: plain(m.content), images: imagesOf(m.content) });
    if (m.role !== 'assistant') continue;
    demand(m.content != null || m.tool_calls, 'messages', 'an assistant that says nothing');
    for (const c of m.tool_calls ?? []) waiting.add(c.id);
    equal(waiting.size, m.tool_calls?.length ?? 0, 'ids of calls that differ');
    said.turns.push({
      text: plain(m.content), thoughts: [], calls: (m.tool_calls ?? []).map((c) => ({ id: c.id, name: c.function.name, args: JSON.parse(c.function.arguments) })),
    });
  }
  demand(waiting.size === 0, 'messages', `calls without results: ${[...waiting]}`);
  return { model, reply: replyTo(said) };
}

const usage = {
  prompt_tokens: USAGE.prompt, completion_tokens: USAGE.completion, total_tokens: USAGE.total,
  prompt_tokens_details: { cached_tokens: 20, audio_tokens: 0 },
  completion_tokens_details: { reasoning_tokens: 7, audio_tokens: 0, accepted_prediction_tokens: 0, rejected_prediction_tokens: 0 },
};

const toolCalls = ({ calls, before }) => calls.map((c, i) => ({ id: CALL_IDS[before + i], type: 'function', function: { name: c.name, arguments: JSON.stringify(c.args) } }));

const head = (model, object) => ({ id: 'chatcmpl-C1fXn7Vw', object, created: 1754000000, model: `${model}-2025-08-07`, service_tier: 'default', system_fingerprint: 'fp_44709d6fcb' });

function completion(model, reply, more = {}) {
  const message = reply.calls.length > 0
    ? { role: 'assistant', content: null, tool_calls: toolCalls(reply), refusal: null, annotations: [] }
    : { role: 'assistant', content: reply.text, refusal: null, annotations: [] };
  return {
    ...head(model, 'chat.completion'),
    choices: [{ index: 0, message, logprobs: null, finish_reason: reply.calls.length > 0 ? 'tool_calls' : 'stop', ...more.choice }],
    usage, ...more.answer,
  };
}

const sse = (data) => `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`;

function chunks(model, reply, { asked, filters }) {
  const of = (choices, more) => sse({ ...head(model, 'chat.completion.chunk'), choices, ...(asked && { usage: null }), obfuscation: 'x7Gh', ...more });
  const delta = (d, finish_reason = null) => of([{ index: 0, delta: d, logprobs: null, finish_reason }]);
  const out = filters ? [of([], { id: '', model: '', created: 0, prompt_filter_results: [{ prompt_index: 0, content_filter_results: SAFE }] })] : [];
  if (reply.calls.length > 0) {
    out.push(delta({ role: 'assistant', content: null, refusal: null }));
    toolCalls(reply).forEach((c, index) => {
      out.push(delta({ tool_calls: [{ index, ...c, function: { name: c.function.name, arguments: '' } }] }));
      for (const piece of pieces(c.function.arguments)) out.push(delta({ tool_calls: [{ index, function: { arguments: piece } }] }));
    });
    out.push(delta({}, 'tool_calls'));
  } else {
    out.push(delta({ role: 'assistant', content: '', refusal: null }), ...pieces(reply.text).map((content) => delta({ content })), delta({}, 'stop'));
  }
  if (asked) out.push(of([], { usage }));
  return [...out, sse('[DONE]')];
}

const SAFE = { hate: { filtered: false, severity: 'safe' }, jailbreak: { detected: false, filtered: false } };

const embedRequest = object({ model: filled, input: either(filled, list(filled, 1)) }, { encoding_format: is('float', 'base64'), dimensions: integer, user: filled });

function chatAnswer(body, options = {}) {
  const name = options.deployment ?? body.model;
  const asked = body.stream_options?.include_usage === true;
  const script = scripted(name, {
    failure, begun: () => chunks(name, SECOND, { asked, ...options }).slice(0, 3),
    breaks: [sse({ error: { message: 'The server had an error', type: 'server_error', param: null, code: 'internal_error' } })],
  });
  if (script) return script;
  const { model, reply } = chat(body, options);
  if (body.stream) return { events: chunks(model, reply, { asked, ...options }) };
  const more = options.filters ? { choice: { content_filter_results: SAFE }, answer: { prompt_filter_results: [{ prompt_index: 0, content_filter_results: SAFE }] } } : {};
  return { body: completion(model, reply, more) };
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
    if (url.pathname === '/openai/responses') { // next to the deployments, by the model in the body
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
