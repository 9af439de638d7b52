// The Responses API of OpenAI's own client, unpatched, with a provider that does not have it.
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import OpenAI from 'openai';
import { startGateway } from './gateway.mjs';
import { json, startUpstream } from './upstream.mjs';

let gateway, upstream, service, openai;

before(async () => {
  upstream = await startUpstream();
  gateway = await startGateway({ providers: { claude: { baseURL: upstream.url, key: 'sk-of-the-operator-0123456789', type: 'anthropic' } } });
  service = await gateway.serviceKey();
  openai = new OpenAI({ baseURL: gateway.url, apiKey: service.key, maxRetries: 0, timeout: 10_000 });
});

after(async () => {
  await gateway?.remove();
  await upstream?.stop();
});

// What the provider says: it thinks and calls the tool that it is given, and says what
// the tool told it.
const usage = { input_tokens: 9, output_tokens: 4 };
const thought = { type: 'thinking', thinking: 'A tool will know.', signature: 'c2lnbmF0dXJl' };
const call = { type: 'tool_use', id: 'toolu_1', name: 'get_weather', input: { city: 'Paris' } };

function reply({ messages, tools }) {
  const result = messages.at(-1).content.find((block) => block.type === 'tool_result');
  if (tools && !result) return { content: [thought, { type: 'text', text: 'I look.' }, call], stop_reason: 'tool_use' };
  const text = result ? `It is ${result.content}.` : messages.at(-1).content.map((block) => block.text).join('');
  return { content: [{ type: 'text', text }], stop_reason: 'end_turn' };
}

const START = {
  text: () => ({ type: 'text', text: '' }),
  thinking: () => ({ type: 'thinking', thinking: '' }),
  tool_use: ({ id, name }) => ({ type: 'tool_use', id, name, input: {} }),
};
const DELTAS = {
  text: ({ text }) => [...text].map((letter) => ({ type: 'text_delta', text: letter })),
  thinking: ({ thinking, signature }) => [{ type: 'thinking_delta', thinking }, { type: 'signature_delta', signature }],
  tool_use: ({ input }) => JSON.stringify(input).match(/.{1,5}/g).map((partial_json) => ({ type: 'input_json_delta', partial_json })),
};

function* events({ content, stop_reason }) {
  yield { type: 'message_start', message: { id: 'msg_1', model: 'claude-x', usage } };
  for (const [index, block] of content.entries()) {
    yield { type: 'content_block_start', index, content_block: START[block.type](block) };
    for (const delta of DELTAS[block.type](block)) yield { type: 'content_block_delta', index, delta };
    yield { type: 'content_block_stop', index };
  }
  yield { type: 'message_delta', delta: { stop_reason }, usage };
  yield { type: 'message_stop' };
}

let asked;

beforeEach(() => {
  asked = [];
  upstream.otherwise = (res, request) => {
    const body = JSON.parse(request.body);
    asked.push(body);
    if (!body.stream) return json(200, { id: 'msg_1', type: 'message', role: 'assistant', model: 'claude-x', usage, ...reply(body) })(res);
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const event of events(reply(body))) res.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    res.end();
  };
});

const model = '@claude/claude-x';
const TEXT = 'Hello, world: é 日本 😀';
const tools = [{
  type: 'function', name: 'get_weather', strict: true,
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false },
}];

test('a response, and the same one retrieved with the service key alone', async () => {
  const made = await openai.responses.create({ model, input: TEXT, instructions: 'Be brief.', metadata: { a: 'b' } });
  assert.equal(made.output_text, TEXT);
  assert.equal(made.status, 'completed');
  assert.equal(made.model, 'claude-x');
  assert.equal(made.instructions, 'Be brief.');
  assert.equal(made.usage.total_tokens, 13);
  const { _request_id: id, ...got } = await openai.responses.retrieve(made.id, { include: ['message.input_image.image_url'] });
  assert.deepEqual(got, JSON.parse(JSON.stringify({ ...made, _request_id: undefined })));
});

test('a streamed response', async () => {
  const types = [];
  let text = '', last;
  for await (const event of await openai.responses.create({ model, input: TEXT, stream: true })) {
    assert.equal(event.sequence_number, types.length);
    types.push(event.type);
    if (event.type === 'response.output_text.delta') text += event.delta;
    last = event;
  }
  assert.equal(text, TEXT);
  assert.deepEqual([...new Set(types)], [
    'response.created', 'response.in_progress', 'response.output_item.added', 'response.content_part.added', 'response.output_text.delta',
    'response.output_text.done', 'response.content_part.done', 'response.output_item.done', 'response.completed',
  ]);
  assert.deepEqual((await openai.responses.retrieve(last.response.id)).output, last.response.output);
});

test('the stream helper, with thoughts and a tool', async () => {
  const stream = openai.responses.stream({ model, input: 'Weather in Paris?', tools });
  let text = '', args = '';
  stream.on('response.output_text.delta', (event) => { text += event.delta; assert.equal(event.snapshot, text); });
  stream.on('response.function_call_arguments.delta', (event) => { args += event.delta; assert.equal(event.snapshot, args); });
  const final = await stream.finalResponse();
  assert.deepEqual(final.output.map((item) => item.type), ['reasoning', 'message', 'function_call']);
  assert.equal(final.output_text, 'I look.');
  assert.equal(text, 'I look.');
  assert.equal(final.output[0].summary[0].text, thought.thinking);
  assert.deepEqual(JSON.parse(args), call.input);
  assert.deepEqual(final.output[2].parsed_arguments, call.input);
});

for (const stream of [false, true]) {
  const respond = async (params) => (stream ? openai.responses.stream(params).finalResponse() : openai.responses.create(params));
  const kind = stream ? 'streamed' : 'whole';

  test(`a loop with a tool that sends everything again, ${kind}`, async () => {
    const input = [{ role: 'user', content: 'Weather in Paris?' }];
    const first = await respond({ model, input, tools, store: false });
    input.push(...first.output);
    for (const item of first.output.filter(({ type }) => type === 'function_call')) {
      input.push({ type: 'function_call_output', call_id: item.call_id, output: 'sunny' });
    }
    const second = await respond({ model, input, tools, store: false });
    assert.equal(second.output_text, 'It is sunny.');
    assert.deepEqual(asked.at(-1).messages[1].content, [thought, { type: 'text', text: 'I look.' }, call]);
    await assert.rejects(openai.responses.retrieve(second.id), OpenAI.NotFoundError);
  });

  test(`a loop with a tool that goes on from the response before, ${kind}`, async () => {
    const first = await respond({ model, input: 'Weather in Paris?', tools });
    const { call_id } = first.output.at(-1);
    const second = await respond({ model, tools, previous_response_id: first.id, input: [{ type: 'function_call_output', call_id, output: 'sunny' }] });
    assert.equal(second.output_text, 'It is sunny.');
    assert.equal(second.previous_response_id, first.id);
    assert.deepEqual(asked.at(-1).messages.map(({ role }) => role), ['user', 'assistant', 'user']);
    const third = await respond({ model, previous_response_id: second.id, input: TEXT });
    assert.equal(third.output_text, TEXT);
    const kinds = [];
    for await (const item of openai.responses.inputItems.list(third.id, { limit: 2, order: 'asc' })) kinds.push(item.type);
    assert.deepEqual(kinds, ['message', 'reasoning', 'message', 'function_call', 'function_call_output', 'message', 'message']);
  });
}

test('parse, of an answer with a schema', async () => {
  const format = { type: 'json_schema', name: 'answer', schema: { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'], additionalProperties: false } };
  const parsed = await openai.responses.parse({ model, input: '{"a":1}', text: { format } });
  assert.equal(parsed.output_text, '{"a":1}');
  assert.deepEqual(asked.at(-1).output_config.format.schema, format.schema);
});

test('what is deleted is gone, also after a restart', async () => {
  const gone = await openai.responses.create({ model, input: TEXT });
  const kept = await openai.responses.create({ model, input: TEXT });
  await openai.responses.delete(gone.id);
  await gateway.restart();
  assert.equal((await openai.responses.retrieve(kept.id)).output_text, TEXT);
  await assert.rejects(openai.responses.retrieve(gone.id), OpenAI.NotFoundError);
  await assert.rejects(openai.responses.create({ model, input: TEXT, previous_response_id: gone.id }), { status: 400, code: 'previous_response_not_found' });
  await assert.rejects(openai.responses.cancel(kept.id), { status: 400 });
});

test('errors of the provider, and of what it cannot do', async () => {
  await assert.rejects(openai.responses.create({ model, input: 'x', tools: [{ type: 'web_search' }] }), { status: 400, param: 'tools[0]' });
  await assert.rejects(openai.responses.create({ model, input: 'x', background: true }), { status: 400, param: 'background' });
  upstream.next(json(400, { type: 'error', error: { type: 'invalid_request_error', message: 'prompt is too long: 2 tokens > 1 maximum' } }));
  await assert.rejects(openai.responses.create({ model, input: 'x' }), { status: 400, code: 'context_length_exceeded' });
  const event = (data) => `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;
  const overloaded = event({ type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } });
  const begun = [
    { type: 'message_start', message: { id: 'msg_1', type: 'message', role: 'assistant', model: 'm', content: [], usage: { input_tokens: 1, output_tokens: 0 } } },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hel' } },
  ].map(event).join('');
  const stream = (body) => (res) => { res.writeHead(200, { 'content-type': 'text/event-stream' }); res.end(body); };
  // Nothing was sent yet: an HTTP error, which clients retry. Later it is the response's end.
  upstream.next(stream(overloaded));
  await assert.rejects(openai.responses.stream({ model, input: 'x' }).finalResponse(), { status: 529, code: 'overloaded_error' });
  upstream.next(stream(begun + overloaded));
  const failed = await openai.responses.stream({ model, input: 'x' }).finalResponse();
  assert.equal(failed.status, 'failed');
  assert.equal(failed.error.message, 'Overloaded');
});
