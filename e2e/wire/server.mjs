// The model providers of these tests: each speaks its own wire format below a path of
// its own, and refuses what the real one would refuse. They keep no state: what they
// answer depends on the request alone, and on the model that it names:
//
//   limited   429, with a retry-after
//   refused   400
//   breaking  a stream that ends with an error in the middle
//   cut       a stream whose connection breaks
//
// Every other model holds the conversation of conversation.mjs. Only files and batches are
// kept, by aws.mjs, and responses, by responses.mjs.
import { once } from 'node:events';
import http from 'node:http';
import { anthropic } from './anthropic.mjs';
import { bedrock } from './bedrock.mjs';
import { cohere } from './cohere.mjs';
import { google } from './google.mjs';
import { mistral } from './mistral.mjs';
import { azure, openai } from './openai.mjs';
import { demand, Fault } from './shape.mjs';
import { vertex } from './vertex.mjs';

const PROVIDERS = { openai, azure, anthropic, google, cohere, mistral, bedrock, vertex };

/** The provider's key, which the gateway holds. */
export const keyOf = (provider) => `upstream-key-of-${provider}`;

const CREDENTIALS = ['authorization', 'x-api-key', 'api-key', 'x-goog-api-key'];
const FORBIDDEN = /^(x-gw-|x-portkey-|x-stainless-)|^(cookie|proxy-authorization|anthropic-dangerous.*)$/;

class Providers {
  secrets = []; // what no request may hold
  faults = []; // what was wrong with the requests
  seen = []; // every request: provider, path, body
  #server = http.createServer((req, res) => this.#serve(req, res));

  async start() {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    this.url = `http://127.0.0.1:${this.#server.address().port}`;
    return this;
  }

  async stop() {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  /** Returns what was seen, and fails where that was not as the provider wants it. */
  take() {
    const { seen, faults } = this;
    this.seen = [];
    this.faults = [];
    if (faults.length > 0) throw new Fault(faults.join('\n'));
    return seen;
  }

  async #serve(req, res) {
    const parts = [];
    for await (const part of req) parts.push(part);
    const raw = Buffer.concat(parts).toString();
    const [, name, path] = /^\/([a-z]+)(\/.*)$/.exec(req.url) ?? [];
    const provider = PROVIDERS[name];
    try {
      demand(provider, 'path', `${req.url} belongs to no provider`);
      this.#headers(req, raw, provider, name);
      const body = raw === '' ? undefined : provider.raw?.(path) ? raw : JSON.parse(raw);
      this.seen.push({ provider: name, path, body, headers: req.headers });
      await send(res, provider.answer(req.method, path, body, req.headers));
    } catch (fault) {
      const what = `${name} ${req.method} ${path}: ${fault instanceof Fault ? fault.message : fault.stack}\n${raw.slice(0, 4000)}`;
      this.faults.push(what);
      if (res.headersSent) res.destroy();
      else await send(res, (provider ?? openai).failure(400, `the provider refuses: ${what}`));
    }
  }

  #headers(req, raw, provider, name) {
    for (const header of Object.keys(req.headers)) demand(!FORBIDDEN.test(header), 'headers', `${header} went to the provider`);
    for (const vendor of ['anthropic', 'openai']) {
      const own = Object.keys(req.headers).find((h) => h.startsWith(`${vendor}-`));
      demand(!own || { openai: ['openai', 'azure'], anthropic: ['anthropic', 'vertex'] }[vendor].includes(name), 'headers', `${own} of ${vendor}'s`);
    }
    const [header, value] = provider.credential?.(keyOf(name)) ?? ['authorization'];
    if (provider.authorize) provider.authorize(req, keyOf(name), raw);
    else demand(req.headers[header] === value, 'headers', `${header}: ${req.headers[header]}`);
    for (const other of CREDENTIALS) demand(other === header || !(other in req.headers), 'headers', `${other} with ${header}`);
    if (raw !== '' && !provider.raw?.(req.url.slice(name.length + 1))) demand(req.headers['content-type'] === 'application/json', 'headers', `content-type ${req.headers['content-type']}`);
    const all = `${req.url}\n${req.rawHeaders.join('\n')}\n${raw}`;
    for (const secret of this.secrets) demand(!all.includes(secret), 'request', "it holds the gateway's key");
  }
}

/** The answers of providers: { status, headers, body } or { events, broken }. */
async function send(res, { status = 200, headers = {}, body, events, broken }) {
  if (!events) {
    res.writeHead(status, { 'content-type': 'application/json', ...headers });
    res.end(typeof body === 'string' ? body : JSON.stringify(body));
    return;
  }
  res.writeHead(status, { 'content-type': 'text/event-stream', ...headers });
  // Cut anywhere, also within characters.
  const bytes = Buffer.concat(events.map((event) => Buffer.from(event)));
  for (let at = 0; at < bytes.length; at += 61) {
    await new Promise((written) => { res.write(bytes.subarray(at, at + 61), written); });
  }
  if (broken) res.destroy();
  else res.end();
}

export const startProviders = () => new Providers().start();
