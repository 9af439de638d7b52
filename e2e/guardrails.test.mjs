// Guardrails with the clients that have to cope with them: portkey-ai, whose methods save guardrails, and openai.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { after, before, describe, test } from 'node:test';
import OpenAI from 'openai';
import { startGateway } from './gateway.mjs';
import { chunk, startUpstream, streams } from './upstream.mjs';

const require = createRequire(import.meta.url);
const constants = require('portkey-ai/dist/src/constants.js'); // see portkey.test.mjs
const errors = require('portkey-ai/dist/src/error.js');
const { Portkey } = require('portkey-ai');
const PREFIX = constants.PORTKEY_HEADER_PREFIX;

const user = (content) => ({ role: 'user', content });
const ask = (content) => ({ model: 'm', messages: [user(content)] });
const words = (...none) => ({ id: 'default.contains', parameters: { words: none, operator: 'none' } });

let gateway, upstream, service;

before(async () => {
  constants.PORTKEY_HEADER_PREFIX = 'x-gw-';
  upstream = await startUpstream();
  gateway = await startGateway({ providers: { scripted: { baseURL: upstream.url, key: 'sk-of-the-operator-0123456789' } } });
  service = await gateway.serviceKey();
});

after(async () => {
  constants.PORTKEY_HEADER_PREFIX = PREFIX;
  await gateway?.remove();
  await upstream?.stop();
});

describe('portkey-ai', () => {
  const admin = () => new Portkey({ baseURL: gateway.url, apiKey: gateway.ownerKey });
  const client = (config) => new Portkey({ baseURL: gateway.url, apiKey: service.key, config });
  const create = (name, deny, ...checks) => admin().guardrails.create({ name, checks, actions: { deny, async: false } });

  test('saves, shows, lists, changes and deletes guardrails', async () => {
    const made = await create('No swords', true, words('sword'));
    assert.match(made.slug, /^pg-no-swords-/);
    const shown = await admin().guardrails.retrieve({ guardrail_id: made.slug });
    assert.equal(shown.name, 'No swords');
    assert.deepEqual(shown.checks[0].parameters.words, ['sword']);
    const changed = await admin().guardrails.update({ guardrail_id: made.slug, checks: [words('axe')] });
    assert.notEqual(changed.version_id, made.version_id);
    const { data, total } = await admin().guardrails.list({ page_size: 10, current_page: 0 });
    assert.equal(total, 1);
    assert.equal(data[0].slug, made.slug);
    await admin().guardrails.delete({ guardrail_id: made.slug });
    await assert.rejects(admin().guardrails.retrieve({ guardrail_id: made.slug }), errors.NotFoundError);
    await assert.rejects(create('Wrong', true, { id: 'default.contains', parameters: { words: 7 } }), (error) => {
      assert.ok(error instanceof errors.BadRequestError, String(error));
      assert.match(JSON.stringify(error.error), /words/);
      return true;
    });
  });

  test('a denied call is an error of its own, with status 446 and the results', async () => {
    const { slug } = await create('No spears', true, words('spear'));
    const portkey = client({ provider: '@echo', input_guardrails: [slug] });
    assert.equal((await portkey.chat.completions.create(ask('a plough'))).choices[0].message.content, 'a plough');
    for (const stream of [false, true]) {
      await assert.rejects(portkey.chat.completions.create({ ...ask('a spear'), stream }), (error) => {
        assert.ok(error instanceof errors.APIError, String(error));
        assert.equal(error.status, 446);
        assert.equal(error.error.error.type, 'hooks_failed');
        const [hook] = error.error.hook_results.before_request_hooks;
        assert.equal(hook.deny, true);
        assert.equal(hook.checks[0].id, 'default.contains');
        return true;
      });
    }
  });

  test('a guardrail that only warns lets the answer pass, with status 246', async () => {
    const { slug } = await create('Warns of bows', false, words('bow'));
    const portkey = client({ provider: '@echo', output_guardrails: [slug] });
    const answer = await portkey.chat.completions.create(ask('a bow'));
    assert.equal(answer.choices[0].message.content, 'a bow');
    assert.equal(answer.hook_results.after_request_hooks[0].verdict, false);
    const raw = await fetch(`${gateway.url}/chat/completions`, {
      method: 'POST', body: JSON.stringify(ask('a bow')),
      headers: { 'content-type': 'application/json', 'x-gw-api-key': service.key, 'x-gw-config': JSON.stringify({ provider: '@echo', output_guardrails: [slug] }) },
    });
    assert.equal(raw.status, 246);
    await raw.arrayBuffer();
  });
});

describe('openai', () => {
  const client = (config) => new OpenAI({
    baseURL: gateway.url, apiKey: service.key, maxRetries: 0, timeout: 10_000, defaultHeaders: { 'x-gw-config': JSON.stringify(config) },
  });
  const hook = (more) => ({ 'default.contains': { words: ['sword'], operator: 'none' }, deny: true, ...more });
  const denied = (error) => {
    assert.ok(error instanceof OpenAI.APIError, String(error));
    assert.equal(error.status, 446);
    assert.equal(error.type, 'hooks_failed');
    return true;
  };

  test('a denied prompt is an APIError', async () => {
    const openai = client({ provider: '@echo', input_guardrails: [hook()] });
    for (const stream of [false, true]) await assert.rejects(openai.chat.completions.create({ ...ask('a sword'), stream }), denied);
    assert.equal((await openai.chat.completions.create(ask('a plough'))).choices[0].message.content, 'a plough');
  });

  // What a stream said before it was denied, and the error at its end.
  async function read(config, ...texts) {
    upstream.next(streams(...texts.map((text) => chunk(text)), chunk('', 'stop')));
    let text = '';
    try {
      for await (const part of await client(config).chat.completions.create({ ...ask('hi'), stream: true })) text += part.choices[0]?.delta.content ?? '';
    } catch (error) {
      return { text, error };
    }
    return { text };
  }
  const inWindow = { provider: '@scripted', output_guardrails: [hook({ stream_mode: 'window', window_bytes: 16, overlap_bytes: 16 })] };
  const harmless = Array.from({ length: 20 }, (_, i) => `plough ${i}, `);

  test('a stream that is denied after its beginning ends with an error, and without the place', async () => {
    const { text, error } = await read(inWindow, ...harmless, 'a swo', 'rd is next');
    assert.ok(error instanceof OpenAI.APIError, String(error));
    assert.equal(error.type, 'hooks_failed');
    assert.ok(text.length > 0 && `${harmless.join('')}a `.startsWith(text), text);
    assert.doesNotMatch(text, /swo/);
  });

  test('a stream that is denied at its beginning is status 446', async () => {
    const { text, error } = await read(inWindow, 'a swo', 'rd');
    assert.equal(text, '');
    denied(error);
  });

  test('a stream that is allowed comes whole, and one that is redacted without the place', async () => {
    assert.deepEqual(await read(inWindow, ...harmless), { text: harmless.join('') });
    const redacting = { provider: '@scripted', output_guardrails: [{ 'default.regexReplace': { rule: 'sword', redactText: '[weapon]' } }] };
    assert.deepEqual(await read(redacting, 'one swo', 'rd, two swords'), { text: 'one [weapon], two [weapon]s' });
  });

  test('a stream that is denied in mode buffer is status 446, and says nothing', async () => {
    const { text, error } = await read({ provider: '@scripted', output_guardrails: [hook({ stream_mode: 'buffer' })] }, ...harmless, 'a swo', 'rd is next');
    assert.equal(text, '');
    denied(error);
  });
});
