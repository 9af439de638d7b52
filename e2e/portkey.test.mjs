// The client of portkey-ai, unpatched, against the gateway: with the header prefix
// that it has, through header_prefix, and with the gateway's own.
//
// The prefix is a constant of the package's, PORTKEY_HEADER_PREFIX of its module
// dist/src/constants.js. The package is CommonJS and its other modules read the
// constant as a property of that module's exports whenever they use it, so setting
// the property is all it takes; no file of the package is touched. (_shouldRetry
// alone spells its header names out: without the alias, the client repeats a call
// once that the gateway answers with 500 or more.)
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { after, before, describe, test } from 'node:test';
import { startGateway } from './gateway.mjs';
import { breaks, chunk, json, startUpstream } from './upstream.mjs';

const require = createRequire(import.meta.url);
const constants = require('portkey-ai/dist/src/constants.js');
const errors = require('portkey-ai/dist/src/error.js');
const { Portkey } = require('portkey-ai');
// Its own copy of OpenAI's client, which it hands some of the calls to.
const openaiErrors = createRequire(require.resolve('portkey-ai'))('openai');

const OWN_KEY = 'sk-of-the-caller-0123456789';
const VIRTUAL_KEY = 'sk-behind-the-virtual-key-0123456789';
const PREFIX = constants.PORTKEY_HEADER_PREFIX;

const user = (content) => ({ role: 'user', content });
const TEXT = 'Hello, world: é 日本 😀';
const tools = [{
  type: 'function',
  function: { name: 'get_weather', parameters: { type: 'object', properties: { input: { type: 'string' } }, required: ['input'] } },
}];

for (const { prefix, headerPrefix } of [{ prefix: PREFIX, headerPrefix: PREFIX }, { prefix: 'x-gw-' }]) {
  describe(`with the prefix ${prefix}`, () => {
    let gateway, upstream, service;

    before(async () => {
      constants.PORTKEY_HEADER_PREFIX = prefix;
      upstream = await startUpstream();
      gateway = await startGateway({ headerPrefix });
      service = await gateway.serviceKey();
      await gateway.virtualKey('vk-echo', VIRTUAL_KEY, gateway.echoURL);
      await gateway.virtualKey('vk-scripted', VIRTUAL_KEY, upstream.url);
    });

    after(async () => {
      constants.PORTKEY_HEADER_PREFIX = PREFIX;
      await gateway?.remove();
      await upstream?.stop();
    });

    const client = (options) => new Portkey({ baseURL: gateway.url, apiKey: service.key, ...options });
    const own = () => ({ provider: 'openai', Authorization: `Bearer ${OWN_KEY}`, customHost: gateway.echoURL });

    for (const [name, options, model] of [
      ['a virtual key', () => ({ virtualKey: 'vk-echo' }), 'echo'],
      ['the provider @slug', () => ({ provider: '@vk-echo' }), 'echo'],
      ['the model @slug/model', () => ({}), '@vk-echo/echo'],
      ['a provider of the operator', () => ({ provider: '@echo' }), 'echo'],
      ['an own credential with provider and custom host', own, 'echo'],
    ]) {
      describe(`and ${name}`, () => {
        let portkey;
        before(() => { portkey = client(options()); });

        test('chat, with the headers of the answer', async () => {
          const answer = await portkey.chat.completions.create({ model, messages: [user(TEXT)] });
          assert.equal(answer.object, 'chat.completion');
          assert.equal(answer.model, 'echo');
          assert.equal(answer.choices[0].message.content, TEXT);
          assert.equal(answer.choices[0].finish_reason, 'stop');
          const headers = answer.getHeaders();
          assert.match(headers['trace-id'], /^[0-9a-f-]{36}$/);
          assert.ok(headers.provider);
        });

        test('streamed chat', async () => {
          const stream = await portkey.chat.completions.create({ model, messages: [user(TEXT)], stream: true, stream_options: { include_usage: true } });
          let text = '', usage, finish;
          for await (const part of stream) {
            assert.equal(part.object, 'chat.completion.chunk');
            text += part.choices[0]?.delta.content ?? '';
            finish ??= part.choices[0]?.finish_reason ?? undefined;
            usage ??= part.usage ?? undefined;
          }
          assert.equal(text, TEXT);
          assert.equal(finish, 'stop');
          assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
        });

        test('the stream helper', async () => {
          const stream = await portkey.chat.completions.stream({ model, messages: [user(TEXT)] });
          assert.equal((await stream.finalChatCompletion()).choices[0].message.content, TEXT);
        });

        test('a tool call, and the round with its result', async () => {
          const ask = { model, messages: [user('Paris')], tools };
          const { choices: [asked] } = await portkey.chat.completions.create(ask);
          assert.equal(asked.finish_reason, 'tool_calls');
          const [call] = asked.message.tool_calls;
          assert.equal(call.function.name, 'get_weather');
          assert.deepEqual(JSON.parse(call.function.arguments), { input: 'Paris' });
          const { choices: [told] } = await portkey.chat.completions.create({
            ...ask, messages: [...ask.messages, asked.message, { role: 'tool', tool_call_id: call.id, content: 'sunny' }],
          });
          assert.equal(told.message.content, 'sunny');
        });

        test('text completion, plain and streamed', async () => {
          const plain = await portkey.completions.create({ model, prompt: 'one two three', max_tokens: 2 });
          assert.equal(plain.object, 'text_completion');
          assert.equal(plain.choices[0].text, 'one two');
          assert.ok(plain.getHeaders()['trace-id']);
          let text = '';
          for await (const part of await portkey.completions.create({ model, prompt: TEXT, stream: true })) text += part.choices[0]?.text ?? '';
          assert.equal(text, TEXT);
        });

        test('moderation', async () => {
          const answer = await portkey.moderations.create({ input: ['kind', 'please flag-me'], model });
          assert.deepEqual(answer.results.map((r) => r.flagged), [false, true]);
          assert.ok(answer.getHeaders()['trace-id']);
        });

        test('embeddings', async () => {
          const answer = await portkey.embeddings.create({ model, input: ['a', 'b'], dimensions: 24 });
          assert.deepEqual(answer.data.map((d) => d.embedding.length), [24, 24]);
          assert.ok(answer.getHeaders()['trace-id']);
        });
      });
    }

    test('the trace id that a call asks for is its own', async () => {
      const portkey = client({ virtualKey: 'vk-echo', traceID: 'trace-1', metadata: { team: 'a' } });
      const answer = await portkey.chat.completions.create({ model: 'echo', messages: [user('hi')] });
      assert.equal(answer.getHeaders()['trace-id'], 'trace-1');
    });

    test('options of a single call', async () => {
      const answer = await client().chat.completions.create({ model: 'echo', messages: [user('hi')] }, { virtualKey: 'vk-echo', traceID: 'trace-2' });
      assert.equal(answer.choices[0].message.content, 'hi');
      assert.equal(answer.getHeaders()['trace-id'], 'trace-2');
    });

    test('the provider sees its credential, and nothing of the gateway or of the client for it', async () => {
      for (const [options, credential] of [
        [{ virtualKey: 'vk-scripted' }, VIRTUAL_KEY],
        [{ ...own(), customHost: upstream.url }, OWN_KEY],
      ]) {
        const portkey = client({ ...options, traceID: 'trace-secret', metadata: { team: 'metadata-secret' } });
        for (const call of [
          () => portkey.chat.completions.create({ model: 'm', messages: [user(TEXT)] }),
          () => portkey.moderations.create({ input: TEXT }), // goes through OpenAI's client
        ]) {
          const next = upstream.next();
          await call();
          const request = await next;
          assert.equal(request.headers.authorization, `Bearer ${credential}`);
          assert.deepEqual(Object.keys(request.headers).filter((n) => /^x-(gw|portkey)-|cookie/.test(n)), []);
          for (const hidden of [service.key, 'secret']) assert.ok(!request.rawHeaders.join('\n').includes(hidden), hidden);
        }
      }
    });

    test('an unknown key is an AuthenticationError', async () => {
      const portkey = client({ apiKey: 'unknown', virtualKey: 'vk-echo' });
      await assert.rejects(portkey.chat.completions.create({ model: 'echo', messages: [user('hi')] }), (error) => {
        assert.ok(error instanceof errors.AuthenticationError, String(error));
        assert.equal(error.status, 401);
        assert.equal(error.error.status, 'failure');
        assert.equal(error.error.error.code, '03');
        assert.equal(error.message, error.error.message);
        assert.ok(error.headers[`${prefix}trace-id`]);
        return true;
      });
      await assert.rejects(portkey.moderations.create({ input: 'hi' }), (error) => {
        assert.ok(error instanceof openaiErrors.AuthenticationError, String(error));
        assert.equal(error.code, '03');
        return true;
      });
      await assert.rejects(portkey.apiKeys.list({}), (error) => {
        assert.ok(error instanceof errors.AuthenticationError, String(error));
        assert.equal(error.error.success, false);
        assert.equal(error.error.data.errorCode, 'AB05');
        return true;
      });
    });

    test('an unknown virtual key, provider or custom host is a BadRequestError', async () => {
      for (const [options, message] of [
        [{ virtualKey: 'nobody' }, /Following keys are not valid: nobody/],
        [{ provider: '@nobody' }, /Following keys are not valid: nobody/],
        [{ ...own(), provider: 'nobody' }, /Invalid provider passed/],
        [{ ...own(), customHost: 'http://10.0.0.1/v1' }, /Invalid custom host/],
        [{}, /provider header is required/],
      ]) {
        await assert.rejects(client(options).chat.completions.create({ model: 'echo', messages: [user('hi')] }), (error) => {
          assert.ok(error instanceof errors.BadRequestError, String(error));
          assert.match(error.message, message);
          return true;
        });
      }
    });

    test('a rate limit that is used up is a RateLimitError', async () => {
      const { id, key } = await gateway.serviceKey('limited');
      await gateway.rateLimit(id, 1);
      const portkey = client({ apiKey: key, virtualKey: 'vk-echo' });
      const ask = { model: 'echo', messages: [user('hi')] };
      await portkey.chat.completions.create(ask);
      await assert.rejects(portkey.chat.completions.create(ask), (error) => {
        assert.ok(error instanceof errors.RateLimitError, String(error));
        assert.equal(error.status, 429);
        assert.equal(error.error.error.type, 'rate_limits_policy_exhaust_error');
        assert.match(error.headers['retry-after'], /^[1-9]\d?$/);
        assert.equal(error.headers['x-ratelimit-limit-requests'], '1');
        assert.equal(error.headers['x-ratelimit-remaining-requests'], '0');
        assert.ok(error.headers['x-ratelimit-reset-requests']);
        return true;
      });
      await assert.rejects(portkey.moderations.create({ input: 'hi' }), openaiErrors.RateLimitError);
    });

    test("a provider's error comes through", async () => {
      const body = { error: { message: 'no', type: 'invalid_request_error', param: 'messages', code: 'some_code' } };
      upstream.next(json(400, body));
      await assert.rejects(client({ virtualKey: 'vk-scripted' }).chat.completions.create({ model: 'm', messages: [user('hi')] }), (error) => {
        assert.ok(error instanceof errors.BadRequestError, String(error));
        assert.deepEqual(error.error, { ...body, provider: 'openai' });
        return true;
      });
    });

    test('a stream that breaks off ends with an error event, not as if it were whole', async () => {
      upstream.next(breaks([chunk('one')]));
      const parts = [];
      for await (const part of await client({ virtualKey: 'vk-scripted' }).chat.completions.create({ model: 'm', messages: [user('hi')], stream: true })) parts.push(part);
      assert.equal(parts[0].choices[0].delta.content, 'one');
      assert.equal(parts.at(-1).error?.code, 'stream_interrupted'); // this client passes it on as a chunk
      assert.ok(parts.every((p) => !p.choices?.[0].finish_reason));
    });

    describe('on the control plane', () => {
      let admin;
      before(() => { admin = new Portkey({ baseURL: gateway.url, apiKey: gateway.ownerKey }); });

      test('API keys', async () => {
        const made = await admin.apiKeys.create({ type: 'workspace', 'sub-type': 'service', name: 'made', scopes: ['completions.write'] });
        assert.equal(made.object, 'api-key');
        const chat = () => client({ apiKey: made.key, virtualKey: 'vk-echo' }).chat.completions.create({ model: 'echo', messages: [user('hi')] });
        assert.equal((await chat()).choices[0].message.content, 'hi');

        const list = await admin.apiKeys.list({ page_size: 100 });
        assert.equal(list.object, 'list');
        assert.equal(list.total, list.data.length);
        assert.ok(list.data.some((k) => k.id === made.id));
        assert.ok(!JSON.stringify(list).includes(made.key));

        const got = await admin.apiKeys.retrieve({ id: made.id });
        assert.equal(got.name, 'made');
        assert.equal(got.type, 'workspace-service');
        assert.deepEqual(got.scopes, ['completions.write']);
        assert.equal(got.status, 'active');
        assert.notEqual(got.key, made.key);

        await admin.apiKeys.update({ id: made.id, name: 'renamed' });
        const renamed = await admin.apiKeys.retrieve({ id: made.id });
        assert.equal(renamed.name, 'renamed');
        assert.deepEqual(renamed.scopes, ['completions.write']);

        await admin.apiKeys.delete({ id: made.id });
        await assert.rejects(admin.apiKeys.retrieve({ id: made.id }), errors.NotFoundError);
        await assert.rejects(chat(), errors.AuthenticationError);
      });

      test('API keys of the other kinds', async () => {
        for (const [type, subType, kind, scopes] of [
          ['organisation', 'service', 'organisation-service', ['logs.view']],
          ['workspace', 'user', 'workspace-user', ['completions.write']],
        ]) {
          const made = await admin.apiKeys.create({ type, 'sub-type': subType, name: kind, scopes });
          assert.equal((await admin.apiKeys.retrieve({ id: made.id })).type, kind);
        }
        await assert.rejects(admin.apiKeys.create({ type: 'organisation', 'sub-type': 'user', name: 'no', scopes: ['logs.view'] }), errors.NotFoundError);
        await assert.rejects(admin.apiKeys.create({ type: 'workspace', 'sub-type': 'service', name: 'no', scopes: ['no.such'] }), errors.BadRequestError);
        await assert.rejects(client().apiKeys.list({}), errors.PermissionDeniedError);
      });

      test('virtual keys', async () => {
        const made = await admin.virtualKeys.create({ name: 'made', slug: 'made', provider: 'openai', key: OWN_KEY, custom_host: gateway.echoURL, note: 'a note' });
        assert.equal(made.success, true);
        assert.equal(made.data.slug, 'made');
        const chat = () => client({ virtualKey: 'made' }).chat.completions.create({ model: 'echo', messages: [user('hi')] });
        assert.equal((await chat()).choices[0].message.content, 'hi');

        const list = await admin.virtualKeys.list({});
        assert.ok(list.data.some((v) => v.slug === 'made'));
        assert.ok(!JSON.stringify(list).includes(OWN_KEY));

        const got = await admin.virtualKeys.retrieve({ slug: 'made' });
        assert.equal(got.name, 'made');
        assert.equal(got.note, 'a note');
        assert.equal(got.status, 'active');
        assert.equal(got.object, 'virtual-key');
        assert.equal(got.ai_provider_name, 'openai');

        await admin.virtualKeys.update({ slug: 'made', name: 'renamed' });
        const renamed = await admin.virtualKeys.retrieve({ slug: 'made' });
        assert.equal(renamed.name, 'renamed');
        assert.equal(renamed.note, 'a note');
        assert.equal((await chat()).choices[0].message.content, 'hi');
        await assert.rejects(admin.virtualKeys.create({ name: 'again', slug: 'made', provider: 'openai', key: OWN_KEY }), errors.ConflictError);

        await admin.virtualKeys.delete({ slug: 'made' });
        await assert.rejects(admin.virtualKeys.retrieve({ slug: 'made' }), errors.NotFoundError);
        await assert.rejects(chat(), errors.BadRequestError);
      });

      test('rate-limit policies, which the client has no methods for', async () => {
        const made = await admin.post('/policies/rate-limits', {
          name: 'made', type: 'requests', unit: 'rph', value: 7, conditions: [{ key: 'api_key', value: service.id }], group_by: [{ key: 'api_key' }],
        });
        assert.equal(made.value, 7);
        const list = await admin.get('/policies/rate-limits?status=active&unit=rph');
        assert.equal(list.object, 'list');
        assert.deepEqual(list.data.map((p) => p.id), [made.id]);
        assert.equal(list.total, 1);
        assert.equal((await admin.get('/policies/rate-limits?unit=rpd')).total, 0);

        const got = await admin.get(`/policies/rate-limits/${made.id}`);
        for (const field of ['id', 'name', 'conditions', 'group_by', 'type', 'unit', 'value', 'status', 'workspace_id', 'organisation_id', 'created_at', 'last_updated_at']) {
          assert.ok(field in got, field);
        }
        assert.equal(got.object, 'policy_rate_limits');
        assert.equal(got.status, 'active');

        await admin.put(`/policies/rate-limits/${made.id}`, { value: 8 });
        const changed = await admin.get(`/policies/rate-limits/${made.id}`);
        assert.equal(changed.value, 8);
        assert.equal(changed.name, 'made');

        await admin.delete(`/policies/rate-limits/${made.id}`);
        await assert.rejects(admin.get(`/policies/rate-limits/${made.id}`), errors.NotFoundError);
        assert.equal((await admin.get(`/policies/rate-limits/${made.id}?status=archived`)).status, 'archived');
      });
    });
  });
}
