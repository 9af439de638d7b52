// OpenAI's client uploads files and runs batches on Amazon Bedrock.
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import OpenAI, { toFile } from 'openai';
import { until } from './gateway.mjs';
import { slugOf, startTranslated } from './translated.mjs';

const MODEL = 'anthropic.claude-sonnet-4-5-20250929-v1:0';

let world, openai;
before(async () => {
  world = await startTranslated();
  openai = new OpenAI({ baseURL: world.gateway.url, apiKey: world.key, maxRetries: 0, defaultHeaders: { 'x-gw-provider': slugOf('bedrock') } });
});
after(() => world?.close());
afterEach(() => { world.providers.take(); });

const line = (custom_id, content) => JSON.stringify({ custom_id, method: 'POST', url: '/v1/chat/completions', body: { model: MODEL, max_tokens: 50, messages: [{ role: 'user', content }] } });
const input = () => toFile(Buffer.from(`${line('request-1', 'hello')}\n${line('request-2', 'fail')}\n`), 'calls.jsonl');
const create = (input_file_id, more) => openai.batches.create({ input_file_id, endpoint: '/v1/chat/completions', completion_window: '24h', ...more });

test('a batch, from its file to its output', async () => {
  const file = await openai.files.create({ file: await input(), purpose: 'batch' }); // the purpose comes last
  assert.equal(file.object, 'file');
  assert.equal(file.filename, 'calls.jsonl');
  assert.deepEqual(await openai.files.retrieve(file.id).then((f) => [f.id, f.bytes, f.purpose]), [file.id, file.bytes, 'batch']);

  const batch = await create(file.id, { metadata: { team: 'search' } });
  assert.equal(batch.status, 'validating');
  assert.deepEqual(batch.metadata, { team: 'search' });
  await assert.rejects(fetch(`${world.gateway.url}/batches/${batch.id}/output`, { headers: { 'x-gw-api-key': world.key, 'x-gw-provider': slugOf('bedrock') } })
    .then((r) => r.json()).then((b) => { throw new Error(b.error.code); }), /batch_not_completed/);

  const seen = new Set();
  const done = await until(async () => {
    const now = await openai.batches.retrieve(batch.id);
    seen.add(now.status);
    return now.status === 'completed' && now;
  }, 'the batch to complete');
  assert.deepEqual([...seen].at(0), 'in_progress');
  assert.equal(done.input_file_id, file.id);
  assert.deepEqual(done.request_counts, { total: 2, completed: 1, failed: 1 });

  const text = await openai.files.content(done.output_file_id).then((r) => r.text());
  const byID = Object.fromEntries(text.trimEnd().split('\n').map((l) => JSON.parse(l)).map((r) => [r.custom_id, r]));
  const { response, error } = byID['request-1'];
  assert.equal(error, null);
  assert.equal(response.status_code, 200);
  assert.equal(response.body.object, 'chat.completion');
  assert.equal(response.body.model, MODEL);
  assert.equal(response.body.choices[0].message.content, 'hello!');
  assert.equal(response.body.usage.total_tokens, 5);
  assert.equal(byID['request-2'].response.status_code, 400);
  assert.match(byID['request-2'].response.body.error.message, /bad request/);

  const output = await fetch(`${world.gateway.url}/batches/${batch.id}/output`, { headers: { 'x-gw-api-key': world.key, 'x-gw-provider': slugOf('bedrock') } });
  assert.equal(await output.text(), text);

  assert.equal((await openai.files.delete(file.id)).deleted, true);
  await assert.rejects(openai.files.retrieve(file.id), OpenAI.NotFoundError);
});

test('batches and files, page by page', async () => {
  const file = await openai.files.create({ purpose: 'batch', file: await input() });
  const ids = [];
  for (let i = 0; i < 5; i++) ids.unshift((await create(file.id)).id);
  for (const limit of [1, 2, 5]) {
    const listed = [];
    for await (const batch of openai.batches.list({ limit })) {
      listed.push(batch.id);
      if (listed.length === ids.length) break;
    }
    assert.deepEqual(listed, ids);
  }
  const files = [];
  for await (const { id, purpose } of openai.files.list({ limit: 1, purpose: 'batch' })) {
    assert.equal(purpose, 'batch');
    files.push(id);
  }
  assert.ok(files.includes(file.id));
  assert.equal(new Set(files).size, files.length);
});

test('a batch that is cancelled', async () => {
  const file = await openai.files.create({ purpose: 'batch', file: await input() });
  const { id } = await create(file.id);
  const cancelled = await openai.batches.cancel(id);
  assert.equal(cancelled.status, 'cancelling');
  assert.ok(cancelled.cancelling_at > 1e9);
  assert.equal((await openai.batches.retrieve(id)).status, 'cancelling');
});

test('what cannot be is an error of the client', async () => {
  const wrong = await toFile(Buffer.from(`${line('a', 'hello')}\n${line('b', 'hello').replace('chat/completions', 'embeddings')}\n`), 'calls.jsonl');
  await assert.rejects(openai.files.create({ purpose: 'batch', file: wrong }), (e) => e instanceof OpenAI.BadRequestError && e.code === 'invalid_url' && /line 2/.test(e.message));
  await assert.rejects(create('file-abc'), (e) => e instanceof OpenAI.BadRequestError && e.param === 'input_file_id');
  await assert.rejects(openai.batches.retrieve('000000000000'), OpenAI.NotFoundError);
  await assert.rejects(openai.files.content('file-abc'), OpenAI.BadRequestError);
  const plain = await openai.files.create({ purpose: 'user_data', file: await toFile(Buffer.from('as it is'), 'notes.txt') });
  assert.equal(await openai.files.content(plain.id).then((r) => r.text()), 'as it is');
});
