// Claude Code and Codex themselves, headless, do one round of tools through the gateway with
// providers of every dialect. They are installed by `npm ci` in the folder agents.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import fs from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { ADDED, CONTENT, DONE, task } from './agents.mjs';
import { PICTURE } from './conversation.mjs';
import { slugOf, startTranslated } from './translated.mjs';

const bin = (name) => fileURLToPath(new URL(`agents/node_modules/.bin/${name}`, import.meta.url));
const skip = !existsSync(bin('claude')) && 'Claude Code and Codex are not installed: npm ci in e2e/agents';

let world, home;
before(async () => { world = await startTranslated(); });
after(() => world?.close());
beforeEach(async () => {
  // Codex does not put its helpers below /tmp.
  home = await fs.mkdtemp(path.join(os.homedir(), '.gateway-e2e-agent-'));
  await fs.mkdir(path.join(home, 'work'));
  await fs.writeFile(path.join(home, 'work', 'told.txt'), `${CONTENT}\n`);
  await fs.writeFile(path.join(home, 'work', 'shown.png'), Buffer.from(PICTURE, 'base64'));
});
afterEach(async () => {
  await fs.rm(home, { recursive: true, force: true });
  world.providers.take(); // fails the test whose requests were wrong
});

const file = (name = 'told.txt') => path.join(home, 'work', name);

/** Runs an agent with nothing of this process's environment; resolves to what it wrote. */
async function runs(name, args, env) {
  const child = spawn(bin(name), args, { cwd: path.join(home, 'work'), env: { PATH: process.env.PATH, HOME: home, ...env }, stdio: ['ignore', 'pipe', 'pipe'], timeout: 60_000 });
  let out = '', all = '';
  child.stdout.setEncoding('utf8').on('data', (text) => { out += text; all += text; });
  child.stderr.setEncoding('utf8').on('data', (text) => { all += text; });
  const [code] = await once(child, 'close');
  assert.equal(code, 0, all);
  return out;
}

async function claudeCode(slug, model, { name, ...env } = {}) {
  const out = await runs('claude', ['-p', task(file(name)), '--model', model, '--allowedTools', 'Read,Bash(echo:*)', '--output-format', 'json'], {
    ANTHROPIC_BASE_URL: world.gateway.url.replace(/\/v1$/, ''), ANTHROPIC_API_KEY: world.key, ...(slug && { ANTHROPIC_CUSTOM_HEADERS: `x-gw-provider: ${slug}` }),
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1', DISABLE_AUTOUPDATER: '1', ...env,
  });
  const { result, is_error: failed, num_turns: turns } = JSON.parse(out);
  assert.deepEqual({ result, failed }, { result: DONE, failed: false });
  assert.ok(turns >= 2);
  return world.providers.take().filter((r) => r.path !== '/token');
}

describe('Claude Code', { skip }, () => {
  test('anthropic: what it sends goes to Anthropic as it is', async () => {
    const [first, second] = await claudeCode(slugOf('anthropic'), 'claude-sonnet-4-6');
    assert.equal(first.path, '/v1/messages?beta=true');
    for (const beta of ['claude-code-20250219', 'interleaved-thinking-2025-05-14', 'context-management-2025-06-27', 'effort-2025-11-24']) {
      assert.ok(first.headers['anthropic-beta'].split(',').includes(beta), beta);
    }
    assert.deepEqual(first.body.thinking, { type: 'adaptive' });
    assert.deepEqual(first.body.output_config, { effort: 'high' });
    assert.equal(first.body.context_management.edits[0].type, 'clear_thinking_20251015');
    assert.ok(JSON.parse(first.body.metadata.user_id).session_id);
    assert.ok(first.body.system.some((block) => block.cache_control));
    assert.equal(second.body.messages[1].content[0].type, 'thinking');
  });

  test('anthropic: a token instead of a key', () => claudeCode(slugOf('anthropic'), 'claude-sonnet-4-6', { ANTHROPIC_API_KEY: '', ANTHROPIC_AUTH_TOKEN: world.key }));

  for (const [name, model] of [
    ['vertex', 'claude-sonnet-4-6'], ['bedrock', 'anthropic.claude-sonnet-4-6'], ['bedrock', 'amazon.nova-pro-v1:0'], ['openai', 'gpt-5'], ['azure', 'gpt-5'],
    ['google', 'gemini-2.5-flash'], ['google', 'gemini-3-pro-preview'], ['vertex', 'gemini-3-pro-preview'], ['mistral', 'mistral-large-latest'], ['mistral', 'magistral-medium-latest'],
    ['cohere', 'command-a-plus-05-2026'],
  ]) test(`${name}, ${model}`, () => claudeCode(slugOf(name), model));

  // Providers whose results are texts get the picture after them.
  for (const [name, model] of [
    ['anthropic', 'claude-sonnet-4-6'], ['openai', 'gpt-5'], ['google', 'gemini-2.5-flash'], ['google', 'gemini-3-pro-preview'], ['bedrock', 'amazon.nova-pro-v1:0'],
    ['mistral', 'mistral-large-latest'], ['cohere', 'command-a-plus-05-2026'],
  ]) test(`${name}, ${model}: a picture that a tool reads`, () => claudeCode(slugOf(name), model, { name: 'shown.png' }));

  test('a model that names its provider', () => claudeCode('', `@${slugOf('openai')}/gpt-5`));
});

describe('Codex', { skip }, () => {
  async function codex(name, model, { websockets = false, read = file() } = {}) {
    const provider = {
      name: '"gateway"', base_url: JSON.stringify(world.gateway.url), env_key: '"GW_KEY"', wire_api: '"responses"', http_headers: `{"x-gw-provider"="${slugOf(name)}"}`,
      request_max_retries: 0, stream_max_retries: 0, supports_websockets: websockets,
    };
    const settings = [
      'model_provider="gateway"', ...Object.entries(provider).map(([key, value]) => `model_providers.gateway.${key}=${value}`),
      'approval_policy="never"', 'sandbox_mode="danger-full-access"', 'analytics.enabled=false', 'check_for_update_on_startup=false',
    ];
    const out = await runs('codex', ['exec', '--skip-git-repo-check', '--json', '-m', model, ...settings.flatMap((s) => ['-c', s]), task(read)], { GW_KEY: world.key });
    const events = out.trim().split('\n').map((line) => JSON.parse(line));
    const said = events.filter((e) => e.item?.type === 'agent_message' && e.type === 'item.completed').map((e) => e.item.text);
    assert.equal(said.at(-1), DONE, out);
    return world.providers.take().filter((r) => r.path !== '/token');
  }
  for (const [name, model] of [['openai', 'gpt-5.5'], ['anthropic', 'claude-sonnet-4-6'], ['mistral', 'mistral-large-latest']]) {
    test(`${name}, ${model}: a picture that a tool reads`, () => codex(name, model, { read: file('shown.png') }));
  }

  const added = () => fs.readFile(path.join(home, 'work', 'added.txt'), 'utf8');

  for (const websockets of [false, true]) {
    for (const name of ['openai', 'azurev1']) {
      test(`${name}${websockets ? ', over a WebSocket' : ''}: what it sends goes on as it is, and a patch is applied`, async () => {
        const seen = await codex(name, 'gpt-5.5', { websockets });
        assert.equal(await added(), `${ADDED}\n`);
        const { body } = seen.at(-1);
        assert.deepEqual([body.store, body.include, body.tools.find((t) => t.name === 'apply_patch').type], [false, ['reasoning.encrypted_content'], 'custom']);
        assert.ok(body.prompt_cache_key && body.client_metadata);
        assert.ok(body.input.some((i) => i.type === 'custom_tool_call_output'));
        assert.ok(body.input.some((i) => i.type === 'reasoning' && i.encrypted_content));
      });
    }
    for (const [name, model] of [
      ['anthropic', 'claude-sonnet-4-6'], ['google', 'gemini-2.5-flash'], ['google', 'gemini-3-pro-preview'], ['vertex', 'claude-sonnet-4-6'], ['bedrock', 'amazon.nova-pro-v1:0'],
      ['bedrock', 'anthropic.claude-sonnet-4-5-20250929-v1:0'], ['mistral', 'mistral-large-latest'], ['cohere', 'command-a-plus-05-2026'],
    ]) {
      if (websockets && !['anthropic', 'mistral'].includes(name)) continue; // the same way from there on
      test(`${name}, ${model}${websockets ? ', over a WebSocket' : ''}`, async () => {
        const seen = await codex(name, model, { websockets });
        const tools = JSON.stringify(seen.at(-1).body.tools ?? seen.at(-1).body.toolConfig);
        assert.equal(tools.includes('"web_search_20250305"'), model.startsWith('claude'), tools);
      });
    }
  }
});
