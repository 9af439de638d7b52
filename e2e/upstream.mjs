// A model provider that does what a test tells it to, and remembers what it was
// sent, for what gw_echo cannot do: errors, streams that break or hang, and a look
// at the very bytes of a request.
import { once } from 'node:events';
import http from 'node:http';

/** What a request without a script of its own is answered with. */
export const COMPLETION = {
  id: 'chatcmpl-1', object: 'chat.completion', created: 1700000000, model: 'scripted',
  choices: [{ index: 0, message: { role: 'assistant', content: 'pong', refusal: null }, logprobs: null, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
};

/** A chunk of a streamed chat completion. */
export const chunk = (content, finish_reason = null) => ({
  id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1700000000, model: 'scripted',
  choices: [{ index: 0, delta: { content }, finish_reason }],
});

/** Answers with a whole body, an object or text. */
export const json = (status, body, headers = {}) => (res) => {
  res.writeHead(status, { 'content-type': 'application/json', ...headers });
  res.end(typeof body === 'string' ? body : JSON.stringify(body));
};

const event = (data) => `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`;

function begin(res, chunks) {
  res.writeHead(200, { 'content-type': 'text/event-stream' });
  return new Promise((written) => { res.write(chunks.map(event).join(''), written); });
}

/** Answers with a stream that ends well. */
export const streams = (...chunks) => (res) => begin(res, chunks).then(() => res.end(event('[DONE]')));

/** Answers with a stream whose connection breaks, in the middle of a line if half is given. */
export const breaks = (chunks, half = '') => async (res) => {
  await begin(res, chunks);
  if (half) await new Promise((written) => { res.write(half, written); });
  res.destroy();
};

/** Answers with a stream that stays open; with no chunks, with nothing at all. */
export const hangs = (...chunks) => (res) => { if (chunks.length > 0) begin(res, chunks); };

class Upstream {
  requests = []; // every one, in the order in which they came
  #script = [];
  #server = http.createServer((req, res) => this.#serve(req, res));

  async start() {
    this.#server.keepAliveTimeout = 0; // the gateway decides how long it keeps a connection
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    this.url = `http://127.0.0.1:${this.#server.address().port}/v1`;
    return this;
  }

  /**
   * Answers the next request that has no answer yet with answer(res, request), and
   * resolves to the request: method, path, headers, rawHeaders, body (a Buffer) and
   * gone, a promise of when (performance.now) the caller left or had everything.
   */
  next(answer = json(200, COMPLETION)) {
    return new Promise((resolve) => { this.#script.push({ answer, resolve }); });
  }

  /** Answers every request that has no script. */
  otherwise = json(200, COMPLETION);

  async stop() {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  async #serve(req, res) {
    const gone = new Promise((resolve) => { res.once('close', () => resolve(performance.now())); });
    const parts = [];
    for await (const part of req) parts.push(part);
    const request = { method: req.method, path: req.url, headers: req.headers, rawHeaders: req.rawHeaders, body: Buffer.concat(parts), gone };
    this.requests.push(request);
    const { answer, resolve } = this.#script.shift() ?? { answer: this.otherwise };
    answer(res, request);
    resolve?.(request);
  }
}

export const startUpstream = () => new Upstream().start();
