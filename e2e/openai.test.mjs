// OpenAI's own client, unpatched, against the gateway.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import OpenAI from 'openai';
import { startGateway, until } from './gateway.mjs';
import { breaks, chunk, COMPLETION, hangs, json, startUpstream, streams } from './upstream.mjs';

const SCRIPTED_KEY = 'sk-of-the-operator-0123456789';
const VIRTUAL_KEY = 'sk-behind-the-virtual-key-0123456789';
const OWN_KEY = 'sk-of-the-caller-0123456789';

let gateway, upstream, service;

before(async () => {
  upstream = await startUpstream();
  gateway = await startGateway({ providers: { scripted: { baseURL: upstream.url, key: SCRIPTED_KEY } }, accessLog: true });
  service = await gateway.serviceKey();
  await gateway.virtualKey('vk-echo', VIRTUAL_KEY, gateway.echoURL);
  await gateway.virtualKey('vk-scripted', VIRTUAL_KEY, upstream.url);
});

after(async () => {
  await gateway?.remove();
  await upstream?.stop();
});

const client = (defaultHeaders, options) => new OpenAI({
  baseURL: gateway.url, apiKey: service.key, maxRetries: 0, timeout: 10_000, defaultHeaders, ...options,
});
const scripted = (options) => client({ 'x-gw-provider': 'scripted' }, options);

// Every way to say who calls and where the call goes.
const VARIANTS = {
  'the service key as bearer, and a provider of the operator': () => client({ 'x-gw-provider': 'echo' }),
  'the same provider as @slug': () => client({ 'x-gw-provider': '@echo' }),
  'x-gw-api-key, and an own credential with provider and custom host': () => client(
    { 'x-gw-api-key': service.key, 'x-gw-provider': 'openai', 'x-gw-custom-host': gateway.echoURL }, { apiKey: OWN_KEY }),
  'x-gw-api-key, and a virtual key': () => client({ 'x-gw-api-key': service.key, 'x-gw-virtual-key': 'vk-echo' }, { apiKey: OWN_KEY }),
  'the service key as bearer, and a virtual key': () => client({ 'x-gw-virtual-key': 'vk-echo' }),
};

const user = (content) => ({ role: 'user', content });
const hello = { model: 'echo', messages: [{ role: 'system', content: 'Be brief.' }, user('Hello, world: é 日本 😀')] };
const TEXT = 'Hello, world: é 日本 😀';
const tools = [{
  type: 'function',
  function: { name: 'get_weather', description: 'w', parameters: { type: 'object', properties: { input: { type: 'string' } }, required: ['input'] } },
}];

for (const [name, connect] of Object.entries(VARIANTS)) {
  describe(`with ${name}`, () => {
    let openai;
    before(() => { openai = connect(); });

    test('chat', async () => {
      const { data, response } = await openai.chat.completions.create(hello).withResponse();
      assert.equal(data.object, 'chat.completion');
      assert.equal(data.model, 'echo');
      assert.equal(data.choices.length, 1);
      assert.equal(data.choices[0].message.role, 'assistant');
      assert.equal(data.choices[0].message.content, TEXT);
      assert.equal(data.choices[0].finish_reason, 'stop');
      assert.equal(data.usage.total_tokens, data.usage.prompt_tokens + data.usage.completion_tokens);
      assert.match(response.headers.get('x-gw-trace-id'), /^[0-9a-f-]{36}$/);
      assert.ok(response.headers.get('x-gw-provider'));
    });

    test('streamed chat, with usage', async () => {
      const stream = await openai.chat.completions.create({ ...hello, stream: true, stream_options: { include_usage: true } });
      let text = '', usage, finish, chunks = 0;
      for await (const part of stream) {
        assert.equal(part.object, 'chat.completion.chunk');
        chunks++;
        text += part.choices[0]?.delta.content ?? '';
        finish ??= part.choices[0]?.finish_reason ?? undefined;
        usage ??= part.usage ?? undefined;
      }
      assert.equal(text, TEXT);
      assert.equal(finish, 'stop');
      assert.ok(chunks > 3, `${chunks} chunks`);
      assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
    });

    test('the stream helper', async () => {
      const stream = openai.chat.completions.stream(hello);
      let text = '';
      stream.on('content', (delta) => { text += delta; });
      const completion = await stream.finalChatCompletion();
      assert.equal(text, TEXT);
      assert.equal(completion.choices[0].message.content, TEXT);
      assert.equal(completion.choices[0].finish_reason, 'stop');
    });

    test('a tool call, and the round with its result', async () => {
      const ask = { model: 'echo', messages: [user('Paris')], tools };
      const { choices: [asked] } = await openai.chat.completions.create(ask);
      assert.equal(asked.finish_reason, 'tool_calls');
      const [call] = asked.message.tool_calls;
      assert.equal(call.function.name, 'get_weather');
      assert.deepEqual(JSON.parse(call.function.arguments), { input: 'Paris' });
      const { choices: [told] } = await openai.chat.completions.create({
        ...ask, messages: [...ask.messages, asked.message, { role: 'tool', tool_call_id: call.id, content: 'sunny' }],
      });
      assert.equal(told.finish_reason, 'stop');
      assert.equal(told.message.content, 'sunny');
    });

    test('a streamed tool call', async () => {
      const completion = await openai.chat.completions.stream({ model: 'echo', messages: [user('Paris')], tools }).finalChatCompletion();
      const [call] = completion.choices[0].message.tool_calls;
      assert.equal(call.function.name, 'get_weather');
      assert.deepEqual(JSON.parse(call.function.arguments), { input: 'Paris' });
    });

    test('the runTools helper', async () => {
      const asked = [];
      const runner = openai.chat.completions.runTools({
        model: 'echo',
        messages: [user('Paris')],
        tools: [{ ...tools[0], function: { ...tools[0].function, parse: JSON.parse, function: (args) => { asked.push(args); return 'sunny'; } } }],
      });
      assert.equal(await runner.finalContent(), 'sunny');
      assert.deepEqual(asked, [{ input: 'Paris' }]);
    });

    test('text completion', async () => {
      const completion = await openai.completions.create({ model: 'echo', prompt: 'one two three', max_tokens: 2 });
      assert.equal(completion.object, 'text_completion');
      assert.equal(completion.choices[0].text, 'one two');
      assert.equal(completion.choices[0].finish_reason, 'length');
      assert.equal(completion.usage.completion_tokens, 2);
    });

    test('streamed text completion', async () => {
      const stream = await openai.completions.create({ model: 'echo', prompt: TEXT, stream: true });
      let text = '', finish;
      for await (const part of stream) {
        assert.equal(part.object, 'text_completion');
        text += part.choices[0]?.text ?? '';
        finish ??= part.choices[0]?.finish_reason ?? undefined;
      }
      assert.equal(text, TEXT);
      assert.equal(finish, 'stop');
    });

    test('moderation of a string, and of several', async () => {
      const one = await openai.moderations.create({ input: 'please flag-me' });
      assert.deepEqual(one.results.map((r) => r.flagged), [true]);
      assert.equal(typeof one.results[0].categories['self-harm/intent'], 'boolean');
      assert.equal(typeof one.results[0].category_scores.violence, 'number');
      const two = await openai.moderations.create({ input: ['kind', 'please flag-me'] });
      assert.deepEqual(two.results.map((r) => r.flagged), [false, true]);
    });

    test('embeddings, as floats and as the client prefers them', async () => {
      const ask = { model: 'echo', input: ['a', 'b'], dimensions: 24 };
      const floats = await openai.embeddings.create({ ...ask, encoding_format: 'float' });
      const decoded = await openai.embeddings.create(ask); // asks for base64
      assert.deepEqual(floats.data.map((d) => d.index), [0, 1]);
      for (const [i, { embedding }] of floats.data.entries()) {
        assert.equal(embedding.length, 24);
        assert.deepEqual([...decoded.data[i].embedding].map(Math.fround), embedding.map(Math.fround));
      }
      assert.notDeepEqual(floats.data[0].embedding, floats.data[1].embedding);
      const whole = await openai.embeddings.create({ model: 'echo', input: 'a' });
      assert.ok(whole.data[0].embedding.length > 1);
    });
  });
}

describe('refusals', () => {
  test('an unknown key is an AuthenticationError, streamed or not', async () => {
    for (const [what, openai] of Object.entries({
      'an unknown bearer': client({ 'x-gw-provider': 'echo' }, { apiKey: 'unknown' }),
      'an unknown x-gw-api-key': client({ 'x-gw-api-key': 'unknown', 'x-gw-provider': 'echo' }),
      'no key': client({ authorization: null, 'x-gw-provider': 'echo' }),
    })) {
      for (const stream of [false, true]) {
        await assert.rejects(openai.chat.completions.create({ ...hello, stream }), (error) => {
          assert.ok(error instanceof OpenAI.AuthenticationError, `${what}: ${error}`);
          assert.equal(error.status, 401);
          assert.equal(error.code, '03');
          assert.equal(error.error.code, '03');
          return true;
        });
      }
    }
  });

  test('a key without the scope is a PermissionDeniedError', async () => {
    const { key } = await gateway.mustCall('POST', '/api-keys/workspace/service', { name: 'reader', scopes: ['logs.view'] });
    await assert.rejects(client({ 'x-gw-provider': 'echo' }, { apiKey: key }).chat.completions.create(hello), (error) => {
      assert.ok(error instanceof OpenAI.PermissionDeniedError, String(error));
      assert.equal(error.code, '033');
      return true;
    });
  });

  const bad = (what, headers, message) => test(`${what} is a BadRequestError`, async () => {
    const openai = client({ 'x-gw-api-key': service.key, ...headers }, { apiKey: OWN_KEY });
    await assert.rejects(openai.chat.completions.create(hello), (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError, String(error));
      assert.equal(error.status, 400);
      assert.match(error.error.message, message);
      assert.equal(typeof error.code, 'string');
      assert.equal(error.type, 'invalid_request_error');
      return true;
    });
  });
  for (const host of [
    'http://169.254.169.254/v1', 'http://10.0.0.1/v1', 'http://[::1]:9000/v1', 'http://0x7f000001/v1', 'ftp://127.0.0.1/v1',
    'http://127.0.0.1/v1#x', 'http://user:secret@127.0.0.1/v1', 'http://metadata.google.internal/v1', 'not a host',
  ]) bad(`the custom host ${host}`, { 'x-gw-provider': 'openai', 'x-gw-custom-host': host }, /Invalid custom host/);
  bad('an unknown provider', { 'x-gw-provider': 'nobody' }, /Invalid provider passed/);
  bad('an unknown @slug', { 'x-gw-provider': '@nobody' }, /Following keys are not valid/);
  bad('an unknown virtual key', { 'x-gw-virtual-key': 'nobody' }, /Following keys are not valid/);
  bad('no provider', {}, /provider header is required/);

  test('a stored credential never goes to a host that the caller names', async () => {
    const openai = client({ 'x-gw-virtual-key': 'vk-echo', 'x-gw-custom-host': upstream.url });
    const seen = upstream.requests.length;
    await assert.rejects(openai.chat.completions.create(hello), OpenAI.BadRequestError);
    assert.equal(upstream.requests.length, seen);
  });

  test('a rate limit shows its state, and is a RateLimitError once it is used up', async () => {
    const { id, key } = await gateway.serviceKey('limited');
    await gateway.rateLimit(id, 2);
    const openai = client({ 'x-gw-provider': 'echo' }, { apiKey: key });
    const duration = /^(?=\d)(\d+h)?(\d+m)?(\d+(\.\d+)?m?s)?$/;
    for (const remaining of ['1', '0']) {
      const { response } = await openai.chat.completions.create(hello).withResponse();
      assert.equal(response.headers.get('x-ratelimit-limit-requests'), '2');
      assert.equal(response.headers.get('x-ratelimit-remaining-requests'), remaining);
      assert.match(response.headers.get('x-ratelimit-reset-requests'), duration);
    }
    for (const stream of [false, true]) {
      await assert.rejects(openai.chat.completions.create({ ...hello, stream }), (error) => {
        assert.ok(error instanceof OpenAI.RateLimitError, String(error));
        assert.equal(error.status, 429);
        assert.equal(error.type, 'rate_limits_policy_exhaust_error');
        assert.equal(error.code, null);
        const wait = Number(error.headers.get('retry-after'));
        // A window moves in steps of a sixtieth of its length.
        assert.ok(Number.isInteger(wait) && wait >= 1 && wait <= 61, `retry-after ${wait}`);
        assert.equal(error.headers.get('x-ratelimit-limit-requests'), '2');
        assert.equal(error.headers.get('x-ratelimit-remaining-requests'), '0');
        assert.match(error.headers.get('x-ratelimit-reset-requests'), duration);
        return true;
      });
    }
    await client({ 'x-gw-provider': 'echo' }).chat.completions.create(hello); // another key is not held up
  });
});

describe('a provider', () => {
  test("'s errors come through with their status and their body", async () => {
    for (const [status, type] of [
      [400, OpenAI.BadRequestError], [401, OpenAI.AuthenticationError], [404, OpenAI.NotFoundError],
      [422, OpenAI.UnprocessableEntityError], [429, OpenAI.RateLimitError], [500, OpenAI.InternalServerError], [503, OpenAI.InternalServerError],
    ]) {
      const body = { error: { message: `no ${status} today`, type: 'some_type', param: 'messages', code: 'some_code' } };
      for (const stream of [false, true]) {
        upstream.next(json(status, body, { 'x-request-id': 'req-1', 'retry-after': '7' }));
        await assert.rejects(scripted().chat.completions.create({ ...hello, stream }), (error) => {
          assert.ok(error instanceof type, String(error));
          assert.equal(error.status, status);
          assert.deepEqual(error.error, body.error);
          assert.equal(error.code, 'some_code');
          assert.equal(error.param, 'messages');
          assert.equal(error.headers.get('x-request-id'), 'req-1');
          assert.equal(error.headers.get('retry-after'), '7');
          return true;
        });
      }
    }
    const odd = '{ "error" : {"message":"\\u00e9", "type":null,"extra":[1.0]} }\n';
    upstream.next(json(400, odd));
    const raw = await fetch(`${gateway.url}/chat/completions`, {
      method: 'POST', headers: { authorization: `Bearer ${service.key}`, 'x-gw-provider': 'scripted', 'content-type': 'application/json' }, body: JSON.stringify(hello),
    });
    assert.equal(raw.status, 400);
    // As it came, and with the provider's name.
    assert.equal(await raw.text(), odd.replace('}\n', ',"provider":"scripted"}'));
  });

  test('that nobody answers for is an InternalServerError', async () => {
    const dead = await startUpstream();
    await dead.stop();
    const openai = client({ 'x-gw-api-key': service.key, 'x-gw-provider': 'openai', 'x-gw-custom-host': dead.url }, { apiKey: OWN_KEY });
    await assert.rejects(openai.chat.completions.create(hello), (error) => {
      assert.ok(error instanceof OpenAI.InternalServerError, String(error));
      assert.equal(typeof error.error.message, 'string');
      return true;
    });
  });

  for (const [how, answer] of Object.entries({
    'between two events': () => breaks([chunk('one'), chunk(' two')]),
    'in the middle of one': () => breaks([chunk('one'), chunk(' two')], 'data: {"id":"chatc'),
    'in good order, but before its end': () => (res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' });
      res.end(`data: ${JSON.stringify(chunk('one two'))}\n\n`);
    },
  })) {
    test(`whose stream breaks off ${how} is an APIError after what came, and no [DONE]`, async () => {
      upstream.next(answer());
      let text = '';
      await assert.rejects(async () => {
        for await (const part of await scripted().chat.completions.create({ ...hello, stream: true })) text += part.choices[0]?.delta.content ?? '';
      }, (error) => {
        assert.ok(error instanceof OpenAI.APIError, String(error));
        assert.ok(!(error instanceof OpenAI.APIConnectionError), String(error));
        assert.equal(typeof error.error.message, 'string');
        return true;
      });
      assert.equal(text, 'one two');

      upstream.next(answer());
      const response = await scripted().chat.completions.create({ ...hello, stream: true }).asResponse();
      const raw = await response.text();
      assert.ok(!raw.includes('[DONE]'), raw);
      const events = raw.trim().split('\n\n').map((e) => JSON.parse(e.replace(/^data: /, '')));
      assert.equal(typeof events.at(-1).error.message, 'string');
    });
  }

  test('gets the abort of a stream within a second', async () => {
    const request = upstream.next(hangs(chunk('one')));
    const stream = await scripted().chat.completions.create({ ...hello, stream: true });
    let aborted;
    for await (const part of stream) {
      assert.equal(part.choices[0].delta.content, 'one');
      aborted = performance.now();
      stream.controller.abort();
    }
    const left = await (await request).gone;
    assert.ok(left - aborted < 1000, `${left - aborted} ms`);
  });

  test('gets the abort of a call that waits for its answer within a second', async () => {
    const controller = new AbortController();
    const request = upstream.next(hangs());
    const call = assert.rejects(scripted().chat.completions.create(hello, { signal: controller.signal }), OpenAI.APIUserAbortError);
    const { gone } = await request;
    const aborted = performance.now();
    controller.abort();
    await call;
    const left = await gone;
    assert.ok(left - aborted < 1000, `${left - aborted} ms`);
  });

  test('streams without delay: a chunk is there before the next one is sent', async () => {
    let send;
    upstream.next((res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' });
      send = (data) => res.write(`data: ${JSON.stringify(data)}\n\n`);
      send(chunk('0'));
      send.end = () => res.end('data: [DONE]\n\n');
    });
    const stream = await scripted().chat.completions.create({ ...hello, stream: true });
    let n = 0;
    for await (const part of stream) {
      assert.equal(part.choices[0].delta.content, String(n));
      if (++n < 5) send(chunk(String(n)));
      else send.end();
    }
    assert.equal(n, 5);
  });

  for (const [what, connect, credential] of [
    ['of the operator', (o) => client({ 'x-gw-provider': 'scripted', ...o }), SCRIPTED_KEY],
    ['behind a virtual key', (o) => client({ 'x-gw-api-key': service.key, 'x-gw-virtual-key': 'vk-scripted', ...o }, { apiKey: OWN_KEY }), VIRTUAL_KEY],
    ['at a custom host', (o) => client({ 'x-gw-api-key': service.key, 'x-gw-provider': 'openai', 'x-gw-custom-host': upstream.url, ...o }, { apiKey: OWN_KEY }), OWN_KEY],
  ]) {
    test(`${what} sees its own credential, the body as it was sent, and nothing of the gateway's`, async () => {
      const openai = connect({
        cookie: 'session=secret-cookie', 'x-gw-trace-id': 'trace-secret', 'x-gw-metadata': '{"team":"metadata-secret"}', 'x-gw-unheard-of': '1',
        'proxy-authorization': 'Basic c2VjcmV0', 'x-forwarded-for': '192.0.2.1',
      });
      const bodies = [];
      const recording = openai.withOptions({ fetch: (url, init) => { bodies.push(init.body); return fetch(url, init); } });
      for (const [call, path] of [
        [() => recording.chat.completions.create(hello), '/v1/chat/completions'],
        [() => recording.completions.create({ model: 'm', prompt: TEXT }), '/v1/completions'],
        [() => recording.moderations.create({ input: TEXT }), '/v1/moderations'],
        [() => recording.embeddings.create({ model: 'm', input: TEXT, encoding_format: 'float' }), '/v1/embeddings'],
      ]) {
        const next = upstream.next(json(200, { ...COMPLETION, data: [] }));
        const { response } = await call().withResponse();
        const request = await next;
        assert.equal(request.method, 'POST');
        assert.equal(request.path, path);
        assert.equal(request.body.toString(), bodies.at(-1));
        assert.equal(request.headers['content-length'], String(request.body.length));
        assert.equal(request.headers.authorization, `Bearer ${credential}`);
        assert.equal(request.headers.host, new URL(upstream.url).host);
        const names = Object.keys(request.headers);
        assert.deepEqual(names.filter((n) => /^x-gw-|cookie|proxy-auth|x-forwarded|^via$/.test(n)), []);
        for (const secret of [service.key, 'secret', OWN_KEY, VIRTUAL_KEY, SCRIPTED_KEY].filter((s) => s !== credential)) {
          assert.ok(!request.rawHeaders.join('\n').includes(secret), `the provider sees ${secret}`);
        }
        assert.equal(response.headers.get('x-gw-trace-id'), 'trace-secret');
      }
    });
  }

  test('gets every byte of a body, and only the model of it changed by @slug', async () => {
    const send = (headers, body) => fetch(`${gateway.url}/chat/completions`, {
      method: 'POST', headers: { authorization: `Bearer ${service.key}`, 'content-type': 'application/json', ...headers }, body,
    });
    const odd = (model) => `\n{ "seed":-9223372036854775808 ,"model" :"${model}","temperature":1.0e0, "unknown":{"b":1,"a":[]},\t"messages":[{"role":"user","content":"\\u00e9\\ud83d\\ude00 é \\/"}]}\r\n`;
    for (const [headers, sent, got] of [
      [{ 'x-gw-provider': 'scripted' }, odd('m'), odd('m')],
      [{}, odd('@scripted/org/m'), odd('org/m')],
      [{}, odd('@vk-scripted/m'), odd('m')],
    ]) {
      const next = upstream.next();
      const answer = await send(headers, sent);
      assert.equal(answer.status, 200, await answer.text());
      assert.equal((await next).body.toString(), got);
    }
  });

  test('cannot set cookies or headers of the gateway', async () => {
    upstream.next(json(200, COMPLETION, { 'set-cookie': 'a=b', 'x-gw-gateway-exception': 'true', 'x-gw-provider': 'forged', 'x-own': 'kept' }));
    const { response } = await scripted().chat.completions.create(hello).withResponse();
    assert.equal(response.headers.get('set-cookie'), null);
    assert.equal(response.headers.get('x-gw-gateway-exception'), null);
    assert.equal(response.headers.get('x-gw-provider'), 'scripted');
    assert.equal(response.headers.get('x-own'), 'kept');
  });

  test("'s stream comes through byte for byte", async () => {
    const parts = [chunk('é'), { ...chunk(''), extra: { a: [1] } }, chunk('.', 'stop')];
    upstream.next(streams(...parts));
    const response = await scripted().chat.completions.create({ ...hello, stream: true }).asResponse();
    assert.equal(await response.text(), `${parts.map((p) => `data: ${JSON.stringify(p)}\n\n`).join('')}data: [DONE]\n\n`);
  });
});

// The last test: by then everything has passed through the log.
test('no key is in the log', async () => {
  await until(() => gateway.log.includes('handled request'), 'the access log');
  for (const secret of [service.key, gateway.ownerKey, SCRIPTED_KEY, VIRTUAL_KEY, OWN_KEY, 'secret-cookie']) {
    const at = gateway.log.indexOf(secret);
    assert.equal(at, -1, at < 0 ? '' : gateway.log.slice(Math.max(0, at - 300), at + 300));
  }
});
