// A gateway of its own for a test: the built binary, with a Caddyfile, a store and
// a home in a fresh temporary folder, on free loopback ports that stay the same
// when it is restarted.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes, randomInt } from 'node:crypto';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import fs from 'node:fs/promises';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const binary = path.resolve(process.env.GW_BINARY ?? fileURLToPath(new URL('../bin/caddy', import.meta.url)));

// How long a condition may take to come true, in ms. It bounds a failure and
// slows nothing down.
const PATIENCE = 20_000;

// What is left of processes and folders goes with a test that is ended itself.
const children = new Set();
const homes = new Set();
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL');
  for (const home of homes) rmSync(home, { recursive: true, force: true });
});
for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1));

/** Waits until condition() is truthy, or resolves to something that is, and returns that. */
export async function until(condition, what, patience = PATIENCE) {
  for (const deadline = performance.now() + patience; ;) {
    const value = await condition();
    if (value) return value;
    if (performance.now() > deadline) throw new Error(`waited ${patience} ms for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** A Gateway is started with start, and ended with remove; options are those of startGateway. */
export class Gateway {
  ownerKey = randomBytes(32).toString('hex');
  log = ''; // what the process wrote, and those before it
  #options;
  #child;

  constructor(options = {}) {
    this.#options = options;
  }

  async start() {
    if (!this.home) {
      this.home = await fs.mkdtemp(path.join(os.tmpdir(), 'gateway-e2e-'));
      homes.add(this.home);
      this.data = this.#options.data ?? path.join(this.home, 'data');
      this.ports = { gateway: await freePort(), echo: await freePort(), admin: await freePort() };
      this.caddyfile = path.join(this.home, 'Caddyfile');
      await this.configure();
    }
    const child = this.#spawn(['run', '--config', this.caddyfile, '--adapter', 'caddyfile']);
    this.#child = child;
    await until(async () => {
      if (!this.running) throw new Error(`the gateway exited with ${child.exitCode ?? child.signalCode}:\n${this.log}`);
      const answer = await fetch(`${this.url}/admin/workspaces`, { headers: { 'x-gw-api-key': this.ownerKey } }).catch(() => null);
      await answer?.arrayBuffer();
      return answer?.status === 200;
    }, 'the gateway to answer');
    return this;
  }

  /** Writes the Caddyfile; site is lines that go into the gateway's site. */
  async configure(site = this.#options.site ?? '') {
    const { providers = {}, headerPrefix, echo = '', admin = false, accessLog = false } = this.#options;
    const lines = Object.entries(providers).map(([slug, p]) => `provider ${slug} {
			type ${p.type ?? 'openai'}
			base_url ${p.baseURL}
			${p.key ? `api_key ${p.key}` : ''}
			${Object.entries(p.settings ?? {}).map(([name, value]) => `setting ${name} ${value}`).join('\n\t\t\t')}
		}`);
    await fs.writeFile(this.caddyfile, `{
	admin ${admin ? `127.0.0.1:${this.ports.admin}` : 'off'}
	persist_config off
	grace_period 10s
	gw {
		admin_key ${this.ownerKey}
		provider echo {
			type openai
			base_url http://127.0.0.1:${this.ports.echo}/v1
		}
		${lines.join('\n\t\t')}
		trusted_custom_hosts 127.0.0.1
		${headerPrefix ? `header_prefix ${headerPrefix}` : ''}
		block_inline_config off
	}
}

http://127.0.0.1:${this.ports.gateway} {
	bind 127.0.0.1
	${accessLog ? 'log' : ''}
	${site}
	gw_admin
	gw_ratelimit
	gw_inference
}

http://127.0.0.1:${this.ports.echo} {
	bind 127.0.0.1
	gw_echo {
		${echo}
	}
}
`);
  }

  get url() { return `http://127.0.0.1:${this.ports.gateway}/v1`; }
  get echoURL() { return `http://127.0.0.1:${this.ports.echo}/v1`; }
  get exitCode() { return this.#child.exitCode; }
  get running() { return this.#child.exitCode === null && this.#child.signalCode === null; }

  /** Ends the process with no chance to do anything more. */
  kill() { return this.#end('SIGKILL'); }

  /** Ends the process in good order. */
  stop() { return this.#end('SIGTERM'); }

  async restart() {
    await this.stop();
    await this.start();
  }

  /** Ends the process and deletes everything that it wrote. */
  async remove() {
    if (this.#child) await this.kill();
    if (!this.home) return;
    await fs.rm(this.home, { recursive: true, force: true });
    homes.delete(this.home);
  }

  /** Runs a command of the binary alongside the server, such as validate. */
  async run(...args) {
    let output = '';
    const child = this.#spawn(args, (text) => { output += text; });
    const [code] = await once(child, 'close');
    return { code, output };
  }

  validate() { return this.run('validate', '--config', this.caddyfile, '--adapter', 'caddyfile'); }

  reload() { return this.run('reload', '--config', this.caddyfile, '--adapter', 'caddyfile', '--address', `127.0.0.1:${this.ports.admin}`); }

  /** Calls the control plane; resolves to the status and the body. */
  async call(method, route, body, key = this.ownerKey) {
    const answer = await fetch(this.url + route, {
      method,
      headers: { 'x-gw-api-key': key, ...(body && { 'content-type': 'application/json' }) },
      body: body && JSON.stringify(body),
    });
    return { status: answer.status, body: await answer.json() };
  }

  /** Does the same, and takes no for no answer. */
  async mustCall(method, route, body) {
    const answer = await this.call(method, route, body);
    assert.equal(answer.status, 200, `${method} ${route}: ${JSON.stringify(answer.body)}`);
    return answer.body;
  }

  /** Makes a service key for inference: { id, key }. */
  serviceKey(name = 'e2e') {
    return this.mustCall('POST', '/api-keys/workspace/service', { name, scopes: ['completions.write'] });
  }

  /** Makes a virtual key for an OpenAI-shaped provider at host. */
  virtualKey(slug, key, host) {
    return this.mustCall('POST', '/virtual-keys', { name: slug, slug, provider: 'openai', key, custom_host: host });
  }

  /** Allows the service key with this id value requests a minute, or another unit. */
  rateLimit(keyID, value, unit = 'rpm') {
    return this.mustCall('POST', '/policies/rate-limits', {
      type: 'requests', unit, value, conditions: [{ key: 'api_key', value: keyID }], group_by: [{ key: 'api_key' }],
    });
  }

  #spawn(args, sink = (text) => { this.log += text; }) {
    const child = spawn(binary, args, {
      cwd: this.home,
      env: { PATH: process.env.PATH, HOME: this.home, XDG_DATA_HOME: this.data, XDG_CONFIG_HOME: path.join(this.home, 'config'), ...this.#options.env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', sink);
    child.on('error', (error) => sink(`${error}\n`));
    children.add(child);
    child.once('close', () => children.delete(child));
    return child;
  }

  async #end(signal) {
    const child = this.#child;
    if (!this.running) return;
    const closed = once(child, 'close');
    child.kill(signal);
    const deadline = setTimeout(() => child.kill('SIGKILL'), PATIENCE);
    await closed;
    clearTimeout(deadline);
  }
}

/**
 * Starts a gateway with the providers echo and, of options, providers, each
 * { baseURL, key, type, settings } by its slug; headerPrefix: an alias of x-gw-; echo: lines of the
 * gw_echo block; admin: Caddy's admin endpoint is on; accessLog: Caddy's is;
 * data: the folder of an existing store; env: more of the environment; site: lines that go into
 * the gateway's site.
 */
export async function startGateway(options) {
  const gateway = new Gateway(options);
  try {
    return await gateway.start();
  } catch (error) {
    await gateway.remove();
    throw error;
  }
}

const given = new Set();

// A port that nobody listens on, below those that the system gives to outgoing
// connections, so that it is still free after a restart.
async function freePort() {
  for (;;) {
    const port = randomInt(12_000, 32_000);
    if (given.has(port)) continue;
    const server = net.createServer().listen(port, '127.0.0.1');
    const free = await once(server, 'listening').then(() => true, () => false);
    if (!free) continue;
    server.close();
    await once(server, 'close');
    given.add(port);
    return port;
  }
}
