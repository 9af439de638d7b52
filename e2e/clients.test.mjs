// Official clients hold a whole conversation with tools through the gateway, each in its
// own dialect, with providers that speak theirs and check what they get.
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import Anthropic from '@anthropic-ai/sdk';
import Anthropic060 from 'anthropic-sdk-0.60';
import { HumanMessage, SystemMessage, ToolMessage } from '@langchain/core/messages';
import { ChatOpenAI } from '@langchain/openai';
import { Mistral } from '@mistralai/mistralai';
import { generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai';
import OpenAI from 'openai';
import { ANSWER, CALLS, PREAMBLE, QUESTION, run, SYSTEM, THOUGHT, TOOLS, USAGE } from './conversation.mjs';
import { slugOf, startTranslated } from './translated.mjs';
import { sign } from './wire/anthropic.mjs';
import { UNSIGNED } from './wire/google.mjs';

// The models of each provider that are asked. What is asked of one that thinks differs.
const MODELS = {
  openai: ['gpt-5'],
  azure: ['gpt-5'],
  azurev1: ['gpt-5'],
  anthropic: ['claude-sonnet-4-5'],
  google: ['gemini-2.5-flash', 'gemini-3-pro-preview'],
  cohere: ['command-a-03-2025', 'command-a-reasoning-08-2025'],
  mistral: ['mistral-large-latest', 'magistral-medium-latest'],
  bedrock: ['amazon.nova-pro-v1:0', 'anthropic.claude-sonnet-4-5-20250929-v1:0'],
};
const EVERY = Object.keys(MODELS);

let world;
before(async () => { world = await startTranslated(); });
after(() => world?.close());
afterEach(() => { world.providers.take(); }); // fails the test whose requests were wrong

/** What was asked in the conversation: two requests, and nothing wrong with them. */
function asked() {
  const seen = world.providers.take();
  assert.equal(seen.length, 2);
  return seen;
}

/** Runs holds(where) for the models of providers, whole and streamed. */
function matrix(names, holds) {
  for (const name of names) {
    for (const model of MODELS[name]) {
      for (const stream of [false, true]) {
        test(`${name}, ${model}${stream ? ', streamed' : ''}`, () => holds({ name, slug: slugOf(name), model, stream }));
      }
    }
  }
}

const usageOf = ({ prompt_tokens: prompt, completion_tokens: completion, total_tokens: total }) => ({ prompt, completion, total });

describe('openai, chat completions', () => {
  const client = (slug, headers = {}) => new OpenAI({ baseURL: world.gateway.url, apiKey: world.key, maxRetries: 0, defaultHeaders: { 'x-gw-provider': slug, ...headers } });
  const tools = TOOLS.map(({ name, description, schema }) => ({ type: 'function', function: { name, description, parameters: schema } }));
  const begin = () => [{ role: 'system', content: SYSTEM }, { role: 'user', content: QUESTION }];

  function checkCalls(message) {
    assert.deepEqual(message.tool_calls.map((c) => ({ type: c.type, name: c.function.name, args: JSON.parse(c.function.arguments) })), CALLS.map((c) => ({ type: 'function', ...c })));
    assert.equal(new Set(message.tool_calls.map((c) => c.id)).size, 2);
  }

  const results = (message) => message.tool_calls.map((c) => ({ role: 'tool', tool_call_id: c.id, content: run(c.function.name, JSON.parse(c.function.arguments)) }));

  describe('create', () => matrix(EVERY, async ({ name, slug, model, stream }) => {
    const openai = client(slug);
    const messages = begin();
    const turn = async () => {
      const body = { model, messages, tools, max_completion_tokens: 2000, parallel_tool_calls: true };
      if (!stream) {
        const answer = await openai.chat.completions.create(body);
        assert.equal(answer.object, 'chat.completion');
        assert.ok(answer.id && answer.model && answer.created > 1e9);
        assert.deepEqual(usageOf(answer.usage), USAGE);
        return answer.choices[0];
      }
      // As a client that keeps to the protocol collects it.
      const message = { role: 'assistant', content: null };
      let finish, usage;
      const ids = new Set();
      for await (const chunk of await openai.chat.completions.create({ ...body, stream, stream_options: { include_usage: true } })) {
        assert.equal(chunk.object, 'chat.completion.chunk');
        if (chunk.id) ids.add(chunk.id);
        if (chunk.usage) {
          assert.deepEqual(chunk.choices, []);
          usage = chunk.usage;
        }
        for (const { index, delta, finish_reason } of chunk.choices) {
          assert.equal(index, 0);
          assert.ok(!finish, 'a chunk after the end');
          if (delta.content) message.content = (message.content ?? '') + delta.content;
          for (const c of delta.tool_calls ?? []) {
            message.tool_calls ??= [];
            const call = (message.tool_calls[c.index] ??= { ...c, function: { ...c.function, arguments: '' } });
            delete call.index;
            call.function.arguments += c.function.arguments ?? '';
          }
          if (finish_reason) finish = finish_reason;
        }
      }
      assert.equal(ids.size, 1);
      assert.deepEqual(usageOf(usage), USAGE);
      return { message, finish_reason: finish };
    };
    const first = await turn();
    assert.equal(first.finish_reason, 'tool_calls');
    checkCalls(first.message);
    messages.push(first.message, ...results(first.message));
    const second = await turn();
    assert.equal(second.finish_reason, 'stop');
    assert.equal(second.message.content, ANSWER);
    assert.ok(!second.message.tool_calls);
    const [, { body }] = asked();
    if (model.startsWith('gemini-3')) assert.ok(!JSON.stringify(body).includes(UNSIGNED), 'the signature did not come back');
    if (name === 'google') assert.equal(body.generationConfig.maxOutputTokens, 2000);
  }));

  // The client runs the tools. It keeps to the members of calls that it knows, so that the
  // signatures of Gemini's do not come back.
  describe('runTools', () => matrix(EVERY, async ({ slug, model, stream }) => {
    const runnable = TOOLS.map(({ name, description, schema }) => ({
      type: 'function', function: { name, description, parameters: schema, parse: JSON.parse, function: (args) => run(name, args) },
    }));
    const runner = client(slug).chat.completions.runTools({ model, messages: begin(), tools: runnable, ...(stream && { stream, stream_options: { include_usage: true } }) });
    assert.equal(await runner.finalContent(), ANSWER);
    assert.deepEqual(usageOf(await runner.totalUsage()), { prompt: 2 * USAGE.prompt, completion: 2 * USAGE.completion, total: 2 * USAGE.total });
    asked();
  }));

  describe('with thinking, not strict', () => {
    const thinking = { type: 'enabled', budget_tokens: 1500 };
    for (const [name, model] of [['anthropic', MODELS.anthropic[0]], ['bedrock', MODELS.bedrock[1]]]) test(`${name}: the signed thought comes, and goes back`, async () => {
      const openai = client(slugOf(name), { 'x-gw-strict-open-ai-compliance': 'false' });
      const messages = begin();
      const body = { model, messages, tools, thinking, max_completion_tokens: 2000 };
      const { choices: [{ message }] } = await openai.chat.completions.create(body);
      assert.equal(message.content, PREAMBLE);
      assert.deepEqual(message.content_blocks[0], { type: 'thinking', thinking: THOUGHT, signature: sign(THOUGHT) });
      messages.push(message, ...results(message));
      const answer = await openai.chat.completions.create(body);
      assert.equal(answer.choices[0].message.content, ANSWER);
      asked();
    });

    for (const [name, model] of [['anthropic', MODELS.anthropic[0]], ['bedrock', MODELS.bedrock[1]]]) test(`${name}, streamed: the blocks of the chunks go back as one message`, async () => {
      const openai = client(slugOf(name), { 'x-gw-strict-open-ai-compliance': 'false' });
      const messages = begin();
      const body = { model, messages, tools, thinking, max_completion_tokens: 2000 };
      const turn = async () => {
        const runner = openai.chat.completions.stream(body);
        const blocks = [];
        for await (const { choices: [choice] } of runner) {
          for (const { index, delta } of choice?.delta.content_blocks ?? []) {
            const block = (blocks[index] ??= { type: Object.keys(delta)[0] });
            for (const [member, piece] of Object.entries(delta)) block[member] = (block[member] ?? '') + piece;
          }
        }
        const { choices: [{ message }] } = await runner.finalChatCompletion();
        return { ...message, content_blocks: blocks };
      };
      const message = await turn();
      checkCalls(message);
      assert.deepEqual(message.content_blocks[0], { type: 'thinking', thinking: THOUGHT, signature: sign(THOUGHT) });
      messages.push(message, ...results(message));
      assert.equal((await turn()).content, ANSWER);
      asked();
    });

    test('google: thoughts come in blocks, and not in the text', async () => {
      const openai = client(slugOf('google'), { 'x-gw-strict-open-ai-compliance': 'false' });
      const messages = begin();
      const body = { model: 'gemini-2.5-flash', messages, tools, thinking };
      const { choices: [{ message }] } = await openai.chat.completions.create(body);
      assert.equal(message.content, PREAMBLE);
      assert.equal(message.content_blocks[0].thinking, THOUGHT);
      messages.push(message, ...results(message));
      const runner = openai.chat.completions.stream(body);
      assert.equal(await runner.finalContent(), ANSWER);
      asked();
    });
  });

  describe('a conversation goes on with another provider', () => {
    const names = ['anthropic', 'google', 'cohere', 'mistral', 'bedrock'];
    for (const from of names) {
      for (const to of names) {
        if (from === to) continue;
        test(`from ${from} to ${to}`, async () => {
          const messages = begin();
          const model = (name) => MODELS[name].at(-1);
          const loose = { 'x-gw-strict-open-ai-compliance': 'false' };
          const { choices: [{ message }] } = await client(slugOf(from), loose).chat.completions.create({ model: model(from), messages, tools });
          messages.push(message, ...results(message));
          const answer = await client(slugOf(to), loose).chat.completions.create({ model: model(to), messages, tools });
          assert.equal(answer.choices[0].message.content, ANSWER);
          asked();
        });
      }
    }
  });
});

describe('openai, responses', () => {
  const client = (slug) => new OpenAI({ baseURL: world.gateway.url, apiKey: world.key, maxRetries: 0, defaultHeaders: { 'x-gw-provider': slug } });
  const tools = TOOLS.map(({ name, description, schema }) => ({ type: 'function', name, description, parameters: schema, strict: true }));
  for (const remembered of [false, true]) {
    describe(remembered ? 'previous_response_id' : 'input', () => matrix(EVERY, async ({ slug, model, stream }) => {
      const openai = client(slug);
      const input = [{ role: 'user', content: QUESTION }];
      const turn = (more) => {
        const body = { model, instructions: SYSTEM, input, tools, ...more };
        return stream ? openai.responses.stream(body).finalResponse() : openai.responses.create(body);
      };
      const first = await turn();
      assert.deepEqual([first.usage.input_tokens, first.usage.output_tokens, first.usage.total_tokens], Object.values(USAGE));
      const calls = first.output.filter((item) => item.type === 'function_call');
      assert.deepEqual(calls.map((c) => ({ name: c.name, args: JSON.parse(c.arguments) })), CALLS);
      const outputs = calls.map((c) => ({ type: 'function_call_output', call_id: c.call_id, output: run(c.name, JSON.parse(c.arguments)) }));
      const second = await (remembered ? turn({ previous_response_id: first.id, input: outputs }) : turn({ input: [...input, ...first.output, ...outputs] }));
      assert.equal(second.output_text, ANSWER);
      asked();
    }));
  }
});

const anthropicClient = (SDK) => new SDK({ baseURL: world.gateway.url.replace(/\/v1$/, ''), apiKey: world.key, maxRetries: 0 });

// The newest one, and one that many programs still have. Both send their key as x-api-key.
for (const [version, SDK] of Object.entries({ newest: Anthropic, '0.60': Anthropic060 })) {
  describe(`@anthropic-ai/sdk, ${version}`, () => anthropicSDK(SDK));
}

function anthropicSDK(SDK) {
  const client = () => anthropicClient(SDK);
  const tools = TOOLS.map(({ name, description, schema }) => ({ name, description, input_schema: schema }));
  const sum = (u) => ({ prompt: u.input_tokens + u.cache_read_input_tokens + u.cache_creation_input_tokens, completion: u.output_tokens });
  const results = (content) => content.filter((b) => b.type === 'tool_use').map((b, i) => ({
    type: 'tool_result', tool_use_id: b.id,
    content: i === 0 ? run(b.name, b.input) : [{ type: 'text', text: run(b.name, b.input) }],
  }));

  describe('messages', () => matrix(EVERY, async ({ name, slug, model, stream }) => {
    const anthropic = client();
    const messages = [{ role: 'user', content: QUESTION }];
    const turn = async () => {
      // Claude and Gemini think where they are asked to.
      const thinking = ['anthropic', 'google'].includes(model.startsWith('anthropic.') ? 'anthropic' : name) && { thinking: { type: 'enabled', budget_tokens: 1500 } };
      const body = { model: `@${slug}/${model}`, max_tokens: 2000, system: SYSTEM, messages, tools, ...thinking };
      const answer = stream ? await anthropic.messages.stream(body).finalMessage() : await anthropic.messages.create(body);
      assert.equal(answer.type, 'message');
      assert.deepEqual(sum(answer.usage), { prompt: USAGE.prompt, completion: USAGE.completion });
      return answer;
    };
    const first = await turn();
    assert.equal(first.stop_reason, 'tool_use');
    const calls = first.content.filter((b) => b.type === 'tool_use');
    assert.deepEqual(calls.map(({ name: called, input }) => ({ name: called, args: input })), CALLS);
    if (/claude/.test(model)) assert.deepEqual(first.content[0], { type: 'thinking', thinking: THOUGHT, signature: sign(THOUGHT) });
    else if (['google', 'gemini', 'magistral', 'reasoning'].some((m) => model.includes(m))) assert.equal(first.content[0].thinking, THOUGHT);
    messages.push({ role: 'assistant', content: first.content }, { role: 'user', content: results(first.content) });
    const second = await turn();
    assert.equal(second.stop_reason, 'end_turn');
    assert.equal(second.content.filter((b) => b.type === 'text').map((b) => b.text).join(''), ANSWER);
    asked();
  }));

  // As coding assistants do: what may be cached is marked everywhere, four times at most.
  describe('cache_control', () => matrix(EVERY, async ({ name, slug, model, stream }) => {
    const cache_control = { type: 'ephemeral' };
    const body = {
      model: `@${slug}/${model}`, max_tokens: 2000, system: [{ type: 'text', text: SYSTEM, cache_control }], metadata: { user_id: 'user_1' },
      tools: tools.map((t, i) => (i === 1 ? { ...t, cache_control } : t)),
      messages: [{ role: 'user', content: [{ type: 'text', text: QUESTION, cache_control }] }],
    };
    const first = stream ? await client().messages.stream(body).finalMessage() : await client().messages.create(body);
    assert.equal(first.stop_reason, 'tool_use');
    body.messages.push({ role: 'assistant', content: first.content }, { role: 'user', content: results(first.content).map((r, i) => (i === 1 ? { ...r, cache_control } : r)) });
    const second = await client().messages.create(body);
    assert.equal(second.content.at(-1).text, ANSWER);
    asked();
  }));

  for (const stream of [false, true]) {
    test(`an error of the gateway is one of the API's${stream ? ', streamed' : ''}`, async () => {
      const body = { model: `@${slugOf('openai')}/gpt-5`, max_tokens: 20, messages: [{ role: 'user', content: QUESTION }], stream };
      const stranger = new SDK({ baseURL: world.gateway.url.replace(/\/v1$/, ''), apiKey: 'unknown', maxRetries: 0 });
      for (const [asking, model, kind, type] of [
        [stranger, body.model, SDK.AuthenticationError, 'authentication_error'],
        [client(), '@nobody/m', SDK.BadRequestError, 'invalid_request_error'],
      ]) {
        await assert.rejects(asking.messages.create({ ...body, model }), (error) => {
          assert.ok(error instanceof kind, String(error));
          assert.equal(error.error.type, 'error');
          assert.equal(error.error.error.type, type);
          assert.equal(error.error.request_id, error.headers.get('x-gw-trace-id'));
          return true;
        });
      }
      assert.equal(world.providers.take().length, 0);
    });
  }

  for (const name of ['anthropic', 'google']) {
    test(`countTokens, ${name}`, async () => {
      const model = `@${slugOf(name)}/${MODELS[name][0]}`;
      const { input_tokens: tokens } = await client().messages.countTokens({ model, system: SYSTEM, messages: [{ role: 'user', content: QUESTION }], tools });
      assert.equal(tokens, USAGE.prompt);
    });
  }

  // Others cannot count, and are not asked.
  for (const name of ['openai', 'azure', 'cohere', 'mistral']) {
    test(`countTokens, ${name}: an estimate`, async () => {
      const count = (content) => client().messages.countTokens({ model: `@${slugOf(name)}/${MODELS[name][0]}`, system: SYSTEM, messages: [{ role: 'user', content }], tools }).withResponse();
      const { data, response } = await count(QUESTION);
      assert.equal(response.headers.get('x-gw-token-count'), 'estimated');
      assert.ok(data.input_tokens > 40 && data.input_tokens < 200, String(data.input_tokens));
      assert.ok((await count(`${QUESTION} ${QUESTION}`)).data.input_tokens > data.input_tokens);
      assert.equal(world.providers.take().length, 0);
    });
  }
}

describe('@anthropic-ai/sdk, beta', () => {
  describe('toolRunner', () => matrix(EVERY, async ({ slug, model, stream }) => {
    const runner = anthropicClient(Anthropic).beta.messages.toolRunner({
      model: `@${slug}/${model}`, max_tokens: 2000, system: SYSTEM, messages: [{ role: 'user', content: QUESTION }], stream, thread: false,
      tools: TOOLS.map(({ name, description, schema }) => ({ name, description, input_schema: schema, run: (input) => run(name, input), parse: (input) => input })),
    });
    const final = await runner.runUntilDone();
    assert.equal(final.content.at(-1).text, ANSWER);
    asked();
  }));

  test('a thread is refused where the provider keeps none', async () => {
    const body = { model: `@${slugOf('openai')}/gpt-5`, max_tokens: 2000, messages: [{ role: 'user', content: QUESTION }] };
    await assert.rejects(anthropicClient(Anthropic).beta.messages.thread(body).send(), (error) => {
      assert.ok(error instanceof Anthropic.BadRequestError, String(error));
      assert.match(error.message, /keeps no threads/);
      return true;
    });
    assert.equal(world.providers.take().length, 0);
  });
});

describe('ai', () => {
  const headers = (slug) => ({ 'x-gw-provider': slug });
  const tools = Object.fromEntries(TOOLS.map(({ name, description, schema }) => [
    name, tool({ description, inputSchema: jsonSchema(schema), execute: (args) => (name === 'get_weather' ? JSON.parse(run(name, args)) : run(name, args)) }),
  ]));

  async function holds(model, stream, more = {}) {
    const options = { model, system: SYSTEM, prompt: QUESTION, tools, stopWhen: stepCountIs(3), maxRetries: 0, ...more };
    let result;
    if (stream) {
      result = streamText({ ...options, onError: ({ error }) => { result.failure = error; } });
      for await (const part of result.fullStream) if (part.type === 'error') throw part.error;
    } else {
      result = await generateText(options);
    }
    assert.equal(await result.text, ANSWER);
    const [first, second] = await result.steps;
    assert.deepEqual(first.toolCalls.map((c) => ({ name: c.toolName, args: c.input })), CALLS);
    assert.equal(first.finishReason, 'tool-calls');
    assert.equal(second.finishReason, 'stop');
    const usage = await result.totalUsage;
    assert.deepEqual([usage.inputTokens, usage.outputTokens], [2 * USAGE.prompt, 2 * USAGE.completion]);
    asked();
    return first;
  }

  const openai = (slug) => createOpenAI({ baseURL: world.gateway.url, apiKey: world.key, headers: headers(slug) });
  const anthropic = (slug) => createAnthropic({ baseURL: world.gateway.url, authToken: world.key, headers: headers(slug) });

  describe('@ai-sdk/openai, chat', () => matrix(EVERY, ({ slug, model, stream }) => holds(openai(slug).chat(model), stream)));
  describe('@ai-sdk/openai, responses', () => matrix(EVERY, ({ slug, model, stream }) => holds(openai(slug).responses(model), stream)));
  describe('@ai-sdk/anthropic', () => matrix(EVERY, async ({ name, slug, model, stream }) => {
    const thinking = name === 'anthropic' && { providerOptions: { anthropic: { thinking: { type: 'enabled', budgetTokens: 1500 } } } };
    const first = await holds(anthropic(slug)(model), stream, thinking || {});
    if (thinking) assert.equal(first.reasoningText, THOUGHT);
  }));
});

describe('@langchain/openai', () => {
  matrix(EVERY, async ({ slug, model, stream }) => {
    const chat = new ChatOpenAI({
      model, apiKey: world.key, maxRetries: 0, useResponsesApi: false, streamUsage: true,
      configuration: { baseURL: world.gateway.url, defaultHeaders: { 'x-gw-provider': slug } },
    }).bindTools(TOOLS.map(({ name, description, schema }) => ({ type: 'function', function: { name, description, parameters: schema } })));
    const messages = [new SystemMessage(SYSTEM), new HumanMessage(QUESTION)];
    const turn = async () => {
      if (!stream) return chat.invoke(messages);
      let all;
      for await (const chunk of await chat.stream(messages)) all = all ? all.concat(chunk) : chunk;
      return all;
    };
    const first = await turn();
    assert.deepEqual(first.tool_calls.map(({ name, args }) => ({ name, args })), CALLS);
    const { input_tokens: prompt, output_tokens: completion, total_tokens: total } = first.usage_metadata;
    assert.deepEqual({ prompt, completion, total }, USAGE);
    messages.push(first, ...first.tool_calls.map((c) => new ToolMessage({ tool_call_id: c.id, name: c.name, content: run(c.name, c.args) })));
    assert.equal((await turn()).text, ANSWER);
    asked();
  });
});

describe('@mistralai/mistralai', () => {
  const tools = TOOLS.map(({ name, description, schema }) => ({ type: 'function', function: { name, description, parameters: schema } }));
  const text = (content) => (typeof content === 'string' ? content : (content ?? []).map((p) => p.text ?? '').join(''));
  // It does not take a call in pieces, as others than Mistral stream them.
  const pieces = ['anthropic', 'cohere', 'bedrock'];
  matrix(['mistral', 'anthropic', 'google', 'cohere', 'bedrock'], async ({ name, slug, model, stream }) => {
    const mistral = new Mistral({ serverURL: world.gateway.url.replace(/\/v1$/, ''), apiKey: world.key, retryConfig: { strategy: 'none' } });
    const messages = [{ role: 'system', content: SYSTEM }, { role: 'user', content: QUESTION }];
    const turn = async (whole = !stream) => {
      const body = { model: `@${slug}/${model}`, messages, tools, maxTokens: 2000 };
      if (whole) {
        const { choices: [{ message, finishReason }], usage } = await mistral.chat.complete(body);
        return { message, finishReason, usage };
      }
      const message = { role: 'assistant', content: '' };
      let finishReason, usage;
      for await (const { data } of await mistral.chat.stream(body)) {
        usage = data.usage ?? usage;
        for (const { delta, finishReason: reason } of data.choices) {
          message.content += text(delta.content);
          finishReason = reason ?? finishReason;
          for (const c of delta.toolCalls ?? []) {
            message.toolCalls ??= [];
            const call = (message.toolCalls[c.index] ??= { ...c, function: { name: '', arguments: '' } });
            call.function.name ||= c.function.name;
            call.function.arguments += c.function.arguments;
          }
        }
      }
      return { message, finishReason, usage };
    };
    const first = await turn(!stream || pieces.includes(name));
    assert.equal(first.finishReason, 'tool_calls');
    // Of a stream it comes to who asks, and this client has no words for that.
    if (first.usage) {
      const { promptTokens: prompt, completionTokens: completion, totalTokens: total } = first.usage;
      assert.deepEqual({ prompt, completion, total }, USAGE);
    }
    const calls = first.message.toolCalls.map((c) => ({ id: c.id, name: c.function.name, args: JSON.parse(c.function.arguments) }));
    assert.deepEqual(calls.map(({ name, args }) => ({ name, args })), CALLS);
    messages.push(first.message, ...calls.map((c) => ({ role: 'tool', toolCallId: c.id, name: c.name, content: run(c.name, c.args) })));
    const second = await turn();
    assert.equal(text(second.message.content), ANSWER);
    asked();
  });
});
