// What survives: a process that is killed, a second one on the same store, a
// validation alongside the server, a reload under load.
import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, describe, test } from 'node:test';
import OpenAI from 'openai';
import { Gateway, startGateway, until } from './gateway.mjs';
import { chunk, COMPLETION, json, startUpstream, streams } from './upstream.mjs';

const hello = { model: 'echo', messages: [{ role: 'user', content: 'hi' }] };

/** Sends a chat with a service key; resolves to the status and the body. */
async function chat(gateway, key, headers = { 'x-gw-provider': 'echo' }) {
  const answer = await fetch(`${gateway.url}/chat/completions`, {
    method: 'POST', headers: { 'x-gw-api-key': key, 'content-type': 'application/json', ...headers }, body: JSON.stringify(hello),
  });
  return { status: answer.status, body: await answer.json() };
}

describe('a process that is killed with SIGKILL', () => {
  let gateway;
  before(async () => { gateway = await startGateway(); });
  after(() => gateway?.remove());

  /** Makes a call to the control plane, and kills the process as soon as it has the answer. */
  async function killedAfter(method, route, body) {
    const made = await gateway.mustCall(method, route, body);
    await gateway.kill();
    await gateway.start();
    return made;
  }

  const read = (route) => gateway.mustCall('GET', route);
  const gone = async (route) => assert.equal((await gateway.call('GET', route)).status, 404, route);
  const inference = { name: 'made', scopes: ['completions.write'] };

  test('keeps a new API key, of each kind', async () => {
    for (const [kind, body] of [
      ['organisation/service', { name: 'made', scopes: ['logs.view'] }], ['workspace/service', inference], ['workspace/user', inference],
    ]) {
      const { id, key } = await killedAfter('POST', `/api-keys/${kind}`, body);
      const kept = await read(`/api-keys/${id}`);
      assert.equal(kept.type, kind.replace('/', '-'));
      assert.deepEqual(kept.scopes, body.scopes);
      assert.equal((await chat(gateway, key)).status, body === inference ? 200 : 403);
    }
  });

  test('keeps the change of an API key', async () => {
    const { id, key } = await gateway.serviceKey();
    await killedAfter('PUT', `/api-keys/${id}`, { name: 'changed', scopes: ['logs.view'] });
    const kept = await read(`/api-keys/${id}`);
    assert.equal(kept.name, 'changed');
    assert.deepEqual(kept.scopes, ['logs.view']);
    assert.equal((await chat(gateway, key)).status, 403);
  });

  test('keeps an API key revoked', async () => {
    const { id, key } = await gateway.serviceKey();
    assert.equal((await chat(gateway, key)).status, 200);
    await killedAfter('DELETE', `/api-keys/${id}`);
    await gone(`/api-keys/${id}`);
    assert.equal((await chat(gateway, key)).status, 401);
  });

  test('keeps a new virtual key, and can open its credential', async () => {
    const { key } = await gateway.serviceKey();
    await killedAfter('POST', '/virtual-keys', { name: 'made', slug: 'vk-made', provider: 'openai', key: 'sk-0123456789', custom_host: gateway.echoURL });
    assert.equal((await read('/virtual-keys/vk-made')).name, 'made');
    assert.equal((await chat(gateway, key, { 'x-gw-virtual-key': 'vk-made' })).status, 200);
  });

  test('keeps the change of a virtual key', async () => {
    await gateway.virtualKey('vk-changed', 'sk-0123456789', gateway.echoURL);
    await killedAfter('PUT', '/virtual-keys/vk-changed', { name: 'changed', note: 'a note' });
    const kept = await read('/virtual-keys/vk-changed');
    assert.equal(kept.name, 'changed');
    assert.equal(kept.note, 'a note');
  });

  test('keeps a virtual key deleted', async () => {
    const { key } = await gateway.serviceKey();
    await gateway.virtualKey('vk-deleted', 'sk-0123456789', gateway.echoURL);
    await killedAfter('DELETE', '/virtual-keys/vk-deleted');
    await gone('/virtual-keys/vk-deleted');
    assert.equal((await chat(gateway, key, { 'x-gw-virtual-key': 'vk-deleted' })).status, 400);
  });

  test('keeps a new rate-limit policy, and enforces it', async () => {
    const { id, key } = await gateway.serviceKey();
    const made = await killedAfter('POST', '/policies/rate-limits', {
      type: 'requests', unit: 'rph', value: 1, conditions: [{ key: 'api_key', value: id }], group_by: [{ key: 'api_key' }],
    });
    assert.equal((await chat(gateway, key)).status, 200);
    assert.equal((await chat(gateway, key)).status, 429);
    const kept = await read(`/policies/rate-limits/${made.id}`);
    assert.deepEqual({ ...kept, last_updated_at: '' }, { ...made, last_updated_at: '' });
  });

  test('keeps the change of a rate-limit policy', async () => {
    const { id, key } = await gateway.serviceKey();
    const made = await gateway.rateLimit(id, 1, 'rph');
    assert.equal((await chat(gateway, key)).status, 200);
    assert.equal((await chat(gateway, key)).status, 429);
    await killedAfter('PUT', `/policies/rate-limits/${made.id}`, { value: 2 });
    assert.equal((await read(`/policies/rate-limits/${made.id}`)).value, 2);
    assert.equal((await chat(gateway, key)).status, 200);
    assert.equal((await chat(gateway, key)).status, 429);
  });

  test('keeps a rate-limit policy archived', async () => {
    const { id, key } = await gateway.serviceKey();
    const made = await gateway.rateLimit(id, 0, 'rph');
    assert.equal((await chat(gateway, key)).status, 429);
    await killedAfter('DELETE', `/policies/rate-limits/${made.id}`);
    assert.equal((await chat(gateway, key)).status, 200);
    await gone(`/policies/rate-limits/${made.id}`);
    assert.equal((await read(`/policies/rate-limits/${made.id}?status=archived`)).status, 'archived');
  });

  test('loses nothing of what was answered while many write at once', async () => {
    const made = [];
    const writers = Array.from({ length: 8 }, async (_, i) => {
      for (let n = 0; ; n++) {
        const answer = await gateway.call('POST', '/api-keys/workspace/service', { ...inference, name: `w${i}-${n}` }).catch(() => null);
        if (!answer) return;
        assert.equal(answer.status, 200);
        made.push(answer.body);
      }
    });
    await until(() => made.length >= 40, 'forty keys');
    await gateway.kill();
    await Promise.all(writers);
    await gateway.start();
    for (const { id } of made) assert.equal((await gateway.call('GET', `/api-keys/${id}`)).status, 200);
  });

  test('neither forgets what was used of a rate limit nor takes what was not', async () => {
    const { id, key } = await gateway.serviceKey();
    await gateway.rateLimit(id, 5, 'rph');
    for (let i = 0; i < 3; i++) assert.equal((await chat(gateway, key)).status, 200);
    await gateway.kill();
    await gateway.start();
    const after = [];
    for (let i = 0; i < 3; i++) after.push((await chat(gateway, key)).status);
    assert.deepEqual(after, [200, 200, 429]);
    await gateway.kill();
    await gateway.start();
    assert.equal((await chat(gateway, key)).status, 429);
  });

  test('leaves a store that a process ended in good order opens just the same', async () => {
    const { id, key } = await gateway.serviceKey();
    await gateway.rateLimit(id, 2, 'rph');
    assert.equal((await chat(gateway, key)).status, 200);
    await gateway.restart();
    assert.equal((await chat(gateway, key)).status, 200);
    assert.equal((await chat(gateway, key)).status, 429);
  });
});

describe('alongside a running server', () => {
  let gateway, key;
  before(async () => {
    gateway = await startGateway();
    ({ key } = await gateway.serviceKey());
  });
  after(() => gateway?.remove());

  test('a second process on its store says what is wrong and exits', async (t) => {
    const second = new Gateway({ data: gateway.data });
    t.after(() => second.remove());
    await assert.rejects(second.start());
    assert.ok(second.exitCode > 0, `exit code ${second.exitCode}`);
    assert.match(second.log, /another process \(\d+\) has the directory .* open/);
    assert.doesNotMatch(second.log, /panic|goroutine \d|\.go:\d+/);
    assert.ok(gateway.running);
    assert.equal((await chat(gateway, key)).status, 200);
    await gateway.serviceKey(); // and its store can be written
  });

  test('the configuration can be validated', async () => {
    const { code, output } = await gateway.validate();
    assert.equal(code, 0, output);
    assert.match(output, /Valid configuration/);
    assert.equal((await chat(gateway, key)).status, 200);
  });
});

describe('a reload', () => {
  const RELOADS = 5;
  const STREAMS = 4;
  const LOADS = 6;
  const GENERATION = 20; // answers of each configuration that the load waits for

  let gateway, upstream, key;
  before(async () => {
    upstream = await startUpstream();
    gateway = await startGateway({ providers: { scripted: { baseURL: upstream.url } }, admin: true });
    ({ key } = await gateway.serviceKey());
  });
  after(async () => {
    await gateway?.remove();
    await upstream?.stop();
  });

  /** Begins a streamed chat whose provider sends what write is given, until end. */
  async function openStream() {
    const stream = { text: '' };
    upstream.next((res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' });
      stream.write = (data) => res.write(`data: ${JSON.stringify(data)}\n\n`);
      stream.end = () => res.end('data: [DONE]\n\n');
      stream.write(chunk('0'));
    });
    stream.whole = new Promise((resolve, reject) => {
      const request = http.request(`${gateway.url}/chat/completions`, {
        method: 'POST', agent: false, headers: { authorization: `Bearer ${key}`, 'x-gw-provider': 'scripted', 'content-type': 'application/json' },
      });
      request.on('error', reject);
      request.on('response', async (answer) => {
        try {
          for await (const part of answer.setEncoding('utf8')) stream.text += part;
          resolve();
        } catch (error) {
          reject(error);
        }
      });
      request.end(JSON.stringify({ ...hello, stream: true }));
    });
    stream.whole.catch(() => {}); // whoever awaits it is told
    await until(() => stream.text.includes('"content":"0"'), 'the first chunk');
    return stream;
  }

  test('under load drops no request and cuts no stream', async () => {
    const open = []; // streams that begin before the first reload and end after the last
    for (let i = 0; i < STREAMS; i++) open.push(await openStream());

    // A server that is closed by Go's net/http hangs up on a request that it has not
    // taken yet, because it came over an idle connection or one that was just
    // accepted. Clients send it again, as OpenAI's does by default. What the gateway
    // has taken, it answers, and well, and only once. On a busy machine a client has
    // several connections of which it does not know yet that they are closed, and tries
    // one after the other.
    upstream.otherwise = (res, request) => (JSON.parse(request.body).stream ? streams(chunk('po'), chunk('ng', 'stop')) : json(200, COMPLETION))(res);
    const before = upstream.requests.length;
    const answers = new Map(); // how many each generation of the configuration gave
    const faults = [];
    const openai = new OpenAI({
      baseURL: gateway.url, apiKey: key, defaultHeaders: { 'x-gw-provider': 'scripted' }, maxRetries: 6,
      fetch: async (url, init) => {
        const answer = await fetch(url, init);
        const generation = Number(answer.headers.get('x-generation') ?? 0);
        answers.set(generation, (answers.get(generation) ?? 0) + 1);
        if (answer.status !== 200) faults.push(`${answer.status} ${await answer.clone().text()}`);
        return answer;
      },
    });
    let loading = true;
    const loads = Array.from({ length: LOADS }, async () => {
      while (loading) {
        try {
          assert.equal((await openai.chat.completions.create(hello)).choices[0].message.content, 'pong');
          let text = '', finish;
          for await (const part of await openai.chat.completions.create({ ...hello, stream: true })) {
            text += part.choices[0].delta.content;
            finish = part.choices[0].finish_reason;
          }
          assert.deepEqual([text, finish], ['pong', 'stop']);
        } catch (error) {
          faults.push(String(error));
        }
      }
    });
    const loaded = (n) => until(() => answers.get(n) >= GENERATION || faults.length > 0, `load on generation ${n}`);

    try {
      for (let n = 1; n <= RELOADS; n++) {
        await loaded(n - 1);
        await gateway.configure(`header X-Generation ${n}`);
        const { code, output } = await gateway.reload();
        assert.equal(code, 0, output);
        for (const stream of open) {
          stream.write(chunk(String(n)));
          await until(() => stream.text.includes(`"content":"${n}"`), `a stream after reload ${n}`);
        }
      }
      await loaded(RELOADS);
    } finally {
      loading = false;
      await Promise.all(loads);
    }
    assert.deepEqual(faults, []);
    assert.equal([...answers.values()].reduce((a, b) => a + b), upstream.requests.length - before);

    for (const stream of open) {
      stream.end();
      await stream.whole;
      const events = stream.text.trim().split('\n\n').map((e) => e.replace(/^data: /, ''));
      assert.equal(events.pop(), '[DONE]');
      assert.deepEqual(events.map((e) => JSON.parse(e).choices[0].delta.content), Array.from({ length: RELOADS + 1 }, (_, n) => String(n)));
    }
  });

  test('keeps the count of a rate limit', async () => {
    const limited = await gateway.serviceKey();
    await gateway.rateLimit(limited.id, 3, 'rph');
    const ask = () => chat(gateway, limited.key, { 'x-gw-provider': 'scripted' });
    assert.equal((await ask()).status, 200);
    assert.equal((await ask()).status, 200);
    await gateway.configure('header X-Generation last');
    const { code, output } = await gateway.reload();
    assert.equal(code, 0, output);
    assert.equal((await ask()).status, 200);
    assert.equal((await ask()).status, 429);
  });

  test('with a fault in it changes nothing', async () => {
    await gateway.configure('gw_nothing');
    const { code } = await gateway.reload();
    assert.notEqual(code, 0);
    assert.equal((await chat(gateway, key, { 'x-gw-provider': 'scripted' })).status, 200);
    await gateway.serviceKey();
  });
});
