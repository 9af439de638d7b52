// OpenAI's Responses. What a previous_response_id and item references need is kept.
import { randomBytes } from 'node:crypto';
import { replyTo, SECOND, USAGE } from '../conversation.mjs';
import { addResult, CALL_IDS, failure, imagesOf, pieces, scripted } from './common.mjs';
import { any, boolean, by, demand, either, equal, filled, integer, is, like, list, nullable, object, open, text } from './shape.mjs';

const id = { id: filled, status: filled };
const inputText = object({ type: is('input_text'), text: filled });
const inputImage = object({ type: is('input_image'), image_url: like(/^data:image\/(png|jpeg|gif|webp);base64,/) }, { detail: is('auto', 'low', 'high', 'original') });
const outputs = either(text, list(either(inputText, inputImage), 1));
const item = either(
  object({ role: is('system', 'developer', 'user'), content: either(filled, list(either(inputText, inputImage), 1)) }, { type: is('message'), id: filled }),
  object({ role: is('assistant'), content: either(filled, list(object({ type: is('output_text'), text: filled }, { annotations: list(any), logprobs: list(any), parsed: any }))) }, { type: is('message'), phase: any, ...id }),
  object({ type: is('function_call'), call_id: filled, name: filled, arguments: text }, { ...id, namespace: filled, parsed_arguments: any }),
  object({ type: is('function_call_output'), call_id: filled, output: outputs }, id),
  object({ type: is('custom_tool_call'), call_id: filled, name: filled, input: text }, { ...id, namespace: filled }),
  object({ type: is('custom_tool_call_output'), call_id: filled, output: outputs }, id),
  object({ type: is('reasoning'), summary: list(any) }, { ...id, encrypted_content: nullable(filled), content: nullable(list(any)) }),
  object({ type: is('item_reference'), id: filled }),
);
const named = like(/^[a-zA-Z0-9_-]{1,64}$/);
const functionTool = object({ type: is('function'), name: named, parameters: open }, { description: text, strict: nullable(boolean) });
const customTool = object({ type: is('custom'), name: named }, { description: text, format: by('type', { text: object({ type: any }), grammar: object({ type: any, syntax: is('lark', 'regex'), definition: filled }) }) });
const tool = by('type', {
  function: functionTool,
  custom: customTool,
  namespace: object({ type: any, name: named, tools: list(either(functionTool, customTool), 1) }, { description: text }),
  tool_search: object({ type: any }, { execution: is('client', 'server'), description: text, parameters: open }),
  web_search: object({ type: any }, { external_web_access: boolean, search_content_types: list(is('text', 'image')), search_context_size: filled, filters: open, user_location: open }),
});
const request = object({ model: filled, input: either(filled, list(item, 1)) }, {
  instructions: filled, stream: boolean, store: boolean, previous_response_id: filled, include: list(filled), parallel_tool_calls: boolean,
  tool_choice: is('auto', 'required', 'none'), reasoning: object({}, { effort: is('none', 'minimal', 'low', 'medium', 'high', 'xhigh'), summary: is('auto', 'concise', 'detailed') }),
  max_output_tokens: integer, temperature: any, text: object({}, { verbosity: is('low', 'medium', 'high'), format: open }),
  prompt_cache_key: like(/^.{1,64}$/), client_metadata: open, tools: list(tool, 1),
});

const kept = new Map(); // by the id of a response: { items, output }

const unique = (kind) => `${kind}_${randomBytes(12).toString('hex')}`;

const SEALED = 'gAAAAABsealed';

/** The tools of a request as functions, with what they are called as. */
const functionsOf = (tools = []) => tools.flatMap((t) => {
  if (t.type === 'namespace') return t.tools.map((inside) => ({ ...inside, namespace: t.name }));
  return ['function', 'custom'].includes(t.type) ? [t] : [];
});

function output({ calls, before, text: said }, tools) {
  if (calls.length === 0) return [{ id: unique('msg'), type: 'message', status: 'completed', role: 'assistant', content: [{ type: 'output_text', text: said, annotations: [], logprobs: [] }] }];
  return [
    { id: unique('rs'), type: 'reasoning', summary: [], encrypted_content: SEALED },
    ...calls.map((c, i) => {
      const declared = functionsOf(tools).find((t) => t.name === c.name);
      const call = { status: 'completed', call_id: CALL_IDS[before + i], name: c.name, ...(declared?.namespace && { namespace: declared.namespace }) };
      if (declared?.type === 'custom') return { id: unique('ctc'), type: 'custom_tool_call', ...call, input: c.args.input };
      return { id: unique('fc'), type: 'function_call', ...call, arguments: JSON.stringify(c.args) };
    }),
  ];
}

const response = (body, made, status, items) => ({
  id: made, object: 'response', created_at: 1754000000, status, background: false, error: null, incomplete_details: null,
  instructions: body.instructions ?? null, max_output_tokens: null, model: body.model, output: items, parallel_tool_calls: true, previous_response_id: body.previous_response_id ?? null,
  reasoning: { effort: 'low', summary: null }, service_tier: 'default', store: body.store ?? true, temperature: 1, text: { format: { type: 'text' }, verbosity: 'medium' },
  tool_choice: 'auto', tools: body.tools ?? [], top_p: 1, truncation: 'disabled', user: null, metadata: {},
  usage: status === 'completed'
    ? { input_tokens: USAGE.prompt, input_tokens_details: { cached_tokens: 20 }, output_tokens: USAGE.completion, output_tokens_details: { reasoning_tokens: 7 }, total_tokens: USAGE.total }
    : null,
});

function events(body, made, items) {
  let number = 0;
  const event = (type, more) => `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: number++, ...more })}\n\n`;
  const out = ['created', 'in_progress'].map((n) => event(`response.${n}`, { response: response(body, made, 'in_progress', []) }));
  items.forEach((whole, output_index) => {
    const begun = { ...whole, ...(whole.status && { status: 'in_progress' }) };
    const empty = { reasoning: whole, message: { ...begun, content: [] }, function_call: { ...begun, arguments: '' }, custom_tool_call: { ...begun, input: '' } }[whole.type];
    out.push(event('response.output_item.added', { output_index, item: empty }));
    const at = { item_id: whole.id, output_index };
    if (whole.type === 'function_call') {
      for (const delta of pieces(whole.arguments)) out.push(event('response.function_call_arguments.delta', { ...at, delta, obfuscation: 'aB3' }));
      out.push(event('response.function_call_arguments.done', { ...at, name: whole.name, arguments: whole.arguments }));
    }
    if (whole.type === 'custom_tool_call') {
      for (const delta of pieces(whole.input)) out.push(event('response.custom_tool_call_input.delta', { ...at, delta, obfuscation: 'aB3' }));
      out.push(event('response.custom_tool_call_input.done', { ...at, input: whole.input }));
    }
    if (whole.type === 'message') {
      const part = { ...at, content_index: 0 };
      const [{ text: said }] = whole.content;
      out.push(event('response.content_part.added', { ...part, part: { ...whole.content[0], text: '' } }));
      for (const delta of pieces(said)) out.push(event('response.output_text.delta', { ...part, delta, logprobs: [], obfuscation: 'aB3' }));
      out.push(event('response.output_text.done', { ...part, text: said, logprobs: [] }), event('response.content_part.done', { ...part, part: whole.content[0] }));
    }
    out.push(event('response.output_item.done', { output_index, item: whole }));
  });
  return [...out, event('response.completed', { response: response(body, made, 'completed', items) })];
}

const content = (c) => (typeof c === 'string' ? c : c.map((p) => p.text ?? '').join(''));

/** The items of a request, with those that it refers to. */
function itemsOf(body) {
  const input = typeof body.input === 'string' ? [{ role: 'user', content: body.input }] : body.input;
  const known = new Map([...kept.values()].flatMap(({ output: items }) => items.map((i) => [i.id, i])));
  const items = input.map((i) => (i.type === 'item_reference' ? known.get(i.id) ?? demand(false, 'input', `no item ${i.id}`) : i));
  if (!body.previous_response_id) return items;
  const before = kept.get(body.previous_response_id);
  demand(before, 'previous_response_id', `no response ${body.previous_response_id}`);
  return [...before.items, ...before.output, ...items];
}

function read(body, items) {
  const said = { system: body.instructions, turns: [], tools: functionsOf(body.tools).map((t) => ({ name: t.name, description: t.description, schema: t.parameters })) };
  let reasoned = false; // since the user spoke last
  for (const i of items) {
    const calls = () => {
      if (!said.turns.at(-1)?.calls) said.turns.push({ text: '', thoughts: [], calls: [] });
      return said.turns.at(-1);
    };
    if (i.role === 'system' || i.role === 'developer') said.system = content(i.content);
    if (i.role === 'user') {
      reasoned = false;
      said.turns.push({ user: content(i.content), images: imagesOf(i.content) });
    }
    if (i.role === 'assistant') calls().text += content(i.content);
    if (i.type === 'reasoning') {
      equal(i.encrypted_content, SEALED, 'encrypted_content');
      reasoned = true;
    }
    if (/_call$/.test(i.type)) {
      demand(reasoned, 'input', `${i.type} ${i.call_id} without the reasoning that led to it`);
      calls().calls.push({ id: i.call_id, name: i.name, args: i.type === 'function_call' ? JSON.parse(i.arguments) : { input: i.input } });
    }
    if (/_call_output$/.test(i.type)) {
      demand(said.turns.some((t) => t.calls?.some((c) => c.id === i.call_id)), 'input', `no tool call found for ${i.call_id}`);
      addResult(said, { id: i.call_id, text: content(i.output), images: imagesOf(i.output) });
    }
  }
  return said;
}

/** Answers POST /v1/responses. */
export function responses(body) {
  const script = scripted(body.model, {
    failure, begun: () => events(body, 'resp_1', output(SECOND)).slice(0, 6),
    breaks: [`event: error\ndata: ${JSON.stringify({ type: 'error', sequence_number: 9, code: 'server_error', message: 'The server had an error', param: null })}\n\n`],
  });
  if (script) return script;
  request(body, 'body');
  const items = itemsOf(body);
  const made = output(replyTo(read(body, items)), body.tools);
  const name = unique('resp');
  if (body.store !== false) kept.set(name, { items, output: made });
  return body.stream ? { events: events(body, name, made) } : { body: response(body, name, 'completed', made) };
}
