// A page in a real browser calls the gateway of another origin, whose site allows it as
// docs/operations.md says. CHROMIUM names the browser; default: one in the PATH.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs/promises';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { startGateway } from './gateway.mjs';
import { startUpstream } from './upstream.mjs';

const found = [process.env.CHROMIUM, 'chromium', 'chromium-browser', 'google-chrome'].find((name) => {
  try {
    return name && execFileSync(name, ['--version'], { stdio: 'ignore' }) === null;
  } catch {
    return false;
  }
});
const skip = !found && 'there is no Chromium: install it, or set CHROMIUM';

const modules = fileURLToPath(new URL('node_modules/', import.meta.url));

/** The lines about CORS of the document, for an origin. */
async function allowed(origin) {
  const text = await fs.readFile(new URL('../docs/operations.md', import.meta.url), 'utf8');
  const [, block] = /## Calls from browsers[^]*?```caddyfile\n[^\n]*\{\n([^]*?)\n\tgw_ratelimit/.exec(text);
  return block.replaceAll('https://app.example.com', origin);
}

/** Serves a page that runs script as a module, and modules; resolves to { origin, result, close }. */
async function startSite(script) {
  let report;
  const result = new Promise((resolve) => { report = resolve; });
  const page = `<!doctype html><meta charset="utf-8"><script type="module">
    const report = (result) => fetch('/result', { method: 'POST', body: JSON.stringify(result) });
    try { ${script} } catch (error) { await report({ failure: String(error.stack ?? error) }); }
  </script>`;
  const server = http.createServer(async (req, res) => {
    const parts = [];
    for await (const part of req) parts.push(part);
    if (req.url === '/result') {
      report(JSON.parse(Buffer.concat(parts)));
      res.end();
    } else if (req.url.startsWith('/modules/')) {
      const file = path.join(modules, path.normalize(req.url.slice('/modules'.length)));
      res.setHeader('content-type', 'text/javascript');
      res.end(await fs.readFile(file).catch(() => { res.statusCode = 404; }));
    } else {
      res.setHeader('content-type', 'text/html');
      res.end(page);
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    origin: `http://127.0.0.1:${server.address().port}`, result,
    close: () => { server.closeAllConnections(); server.close(); },
  };
}

let home;
before(async () => { home = await fs.mkdtemp(path.join(os.tmpdir(), 'gateway-e2e-browser-')); });
after(() => fs.rm(home, { recursive: true, force: true, maxRetries: 5 }));

/** Opens the site's page, and resolves to what it reports. */
async function visit(site) {
  const child = spawn(found, [
    '--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--disable-background-networking', '--no-first-run', '--no-proxy-server',
    `--user-data-dir=${await fs.mkdtemp(path.join(home, 'profile-'))}`, site.origin,
  ], { stdio: ['ignore', 'ignore', 'pipe'], env: { PATH: process.env.PATH, HOME: home } });
  let log = '';
  child.stderr.setEncoding('utf8').on('data', (text) => { log += text; });
  const closed = once(child, 'close');
  const result = await Promise.race([site.result, closed.then(() => { throw new Error(`the browser ended:\n${log}`); })]);
  child.kill();
  await closed;
  assert.equal(result.failure, undefined, result.failure);
  return result;
}

/** What every page does first. */
const PAGE = (url, key) => `
  const url = ${JSON.stringify(url)}, key = ${JSON.stringify(key)};
  const call = (headers, body) => fetch(url + '/chat/completions', {
    method: 'POST', headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'Grüße aus dem Browser' }], ...body }),
  });`;

test('a page calls the gateway, streams, and reads errors and headers', { skip }, async () => {
  const gateway = await startGateway();
  const { key } = await gateway.serviceKey();
  const site = await startSite(`${PAGE(gateway.url, key)}
    const own = { authorization: 'Bearer ' + key, 'x-gw-provider': 'echo', 'x-gw-trace-id': 'from-a-page', 'x-gw-metadata': '{"page":"1"}' };
    const whole = await call(own);
    const streamed = await call(own, { stream: true });
    const texts = [];
    for (const reader = streamed.body.pipeThrough(new TextDecoderStream()).getReader(); ;) {
      const { value, done } = await reader.read();
      if (done) break;
      texts.push(value);
    }
    const denied = await call({ ...own, authorization: 'Bearer nobody' });
    const wrong = await call({ ...own, 'x-gw-provider': 'nowhere' });
    const { default: OpenAI } = await import('/modules/openai/index.mjs');
    const openai = new OpenAI({ baseURL: url, apiKey: key, dangerouslyAllowBrowser: true, maxRetries: 0, defaultHeaders: { 'x-gw-provider': 'echo' } });
    const message = { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'Grüße' }] };
    let said = '';
    for await (const chunk of await openai.chat.completions.create({ ...message, stream: true })) said += chunk.choices[0]?.delta.content ?? '';
    const failure = await new OpenAI({ baseURL: url, apiKey: 'nobody', dangerouslyAllowBrowser: true, maxRetries: 0 }).chat.completions.create(message).catch((e) => e);
    await report({
      whole: [whole.status, whole.headers.get('x-gw-trace-id'), (await whole.json()).choices[0].message.content],
      streamed: [streamed.status, texts.join('')],
      denied: [denied.status, (await denied.json()).error.code], wrong: [wrong.status, (await wrong.json()).error.code],
      sdk: [said, failure.status, failure.constructor === OpenAI.AuthenticationError],
    });`);
  try {
    await gateway.configure(await allowed(site.origin));
    await gateway.restart();
    const { whole, streamed, denied, wrong, sdk } = await visit(site);
    assert.deepEqual(whole.slice(0, 2), [200, 'from-a-page']);
    assert.match(whole[2], /Grüße aus dem Browser/);
    assert.equal(streamed[0], 200);
    assert.match(streamed[1], /data: \[DONE\]\n\n$/);
    assert.equal(denied[0], 401);
    assert.ok(denied[1]);
    assert.equal(wrong[0], 400);
    assert.ok(wrong[1]);
    assert.deepEqual(sdk.slice(1), [401, true]);
    assert.match(sdk[0], /Grüße/);
  } finally {
    site.close();
    await gateway.remove();
  }
});

test('a page of another origin reads nothing', { skip }, async () => {
  const upstream = await startUpstream();
  const gateway = await startGateway({ providers: { scripted: { baseURL: upstream.url } } });
  const { key } = await gateway.serviceKey();
  const site = await startSite(`${PAGE(gateway.url, key)}
    const asked = await call({ authorization: 'Bearer ' + key, 'x-gw-provider': 'scripted' }).then(() => 'answered', (e) => e.name);
    const simple = await fetch(url + '/models').then(() => 'answered', (e) => e.name);
    await report({ asked, simple });`);
  try {
    await gateway.configure(await allowed('https://app.example.com'));
    await gateway.restart();
    assert.deepEqual(await visit(site), { asked: 'TypeError', simple: 'TypeError' });
    assert.equal(upstream.requests.length, 0);
  } finally {
    site.close();
    await gateway.remove();
    await upstream.stop();
  }
});
