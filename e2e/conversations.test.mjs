// Official clients hold a conversation of four turns with every dialect: two tools at once,
// thinking, a picture, and one tool twice at once. The providers check every request.
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import Anthropic from '@anthropic-ai/sdk';
import { HumanMessage, SystemMessage, ToolMessage } from '@langchain/core/messages';
import { ChatOpenAI } from '@langchain/openai';
import { generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai';
import Anthropic060 from 'anthropic-sdk-0.60';
import OpenAI from 'openai';
import { ANSWER, CALLS, LAST_ANSWER, LOOK, PICTURE, QUESTION, run, SECOND_CALLS, SECOND_THOUGHT, SYSTEM, THOUGHT, TOOLS } from './conversation.mjs';
import { slugOf, startTranslated } from './translated.mjs';

// A model of each dialect that takes tools and pictures; thinks: it thinks, when it is asked
// to or always. Nova has no thoughts, and OpenAI's stay sealed.
const MODELS = [
  ['openai', 'gpt-5'],
  ['azure', 'gpt-5'],
  ['azurev1', 'gpt-5'],
  ['anthropic', 'claude-sonnet-4-5', 'thinks'],
  ['google', 'gemini-2.5-flash', 'thinks'],
  ['google', 'gemini-3-pro-preview', 'thinks'],
  ['cohere', 'command-a-plus-05-2026', 'thinks'],
  ['mistral', 'mistral-large-latest'],
  ['mistral', 'magistral-medium-latest', 'thinks'],
  ['bedrock', 'amazon.nova-pro-v1:0'],
  ['bedrock', 'anthropic.claude-sonnet-4-5-20250929-v1:0', 'thinks'],
  ['vertex', 'gemini-3-pro-preview', 'thinks'],
  ['vertex', 'claude-sonnet-4-5', 'thinks'],
];
const DATA_URL = `data:image/png;base64,${PICTURE}`;

let world;
before(async () => { world = await startTranslated(); });
after(() => world?.close());
afterEach(() => { world.providers.take(); }); // fails the test whose requests were wrong

/** Runs holds(where) for every model, whole and streamed, and checks that four requests came. */
function matrix(holds) {
  for (const [name, model, thinks] of MODELS) {
    for (const stream of [false, true]) {
      test(`${name}, ${model}${stream ? ', streamed' : ''}`, async () => {
        await holds({ slug: slugOf(name), model, stream, thinks: thinks !== undefined });
        const seen = world.providers.take().filter((request) => request.path !== '/token');
        assert.equal(seen.length, 4);
        assert.ok(JSON.stringify(seen[2].body).includes(PICTURE), 'the picture');
      });
    }
  }
}

const claude = (model) => model.includes('claude');

describe('openai, chat completions', () => matrix(async ({ slug, model, stream, thinks }) => {
  const openai = new OpenAI({ baseURL: world.gateway.url, apiKey: world.key, maxRetries: 0, defaultHeaders: { 'x-gw-provider': slug, 'x-gw-strict-open-ai-compliance': 'false' } });
  const messages = [{ role: 'system', content: SYSTEM }, { role: 'user', content: QUESTION }];
  const tools = TOOLS.map(({ name, description, schema }) => ({ type: 'function', function: { name, description, parameters: schema } }));
  const asks = thinks && { thinking: { type: 'enabled', budget_tokens: 1500 } };
  const turn = async () => {
    const body = { model, messages, tools, max_completion_tokens: 2000, ...asks };
    if (!stream) return (await openai.chat.completions.create(body)).choices[0].message;
    const runner = openai.chat.completions.stream(body);
    const blocks = [];
    for await (const { choices: [choice] } of runner) {
      for (const { index, delta } of choice?.delta.content_blocks ?? []) {
        const block = (blocks[index] ??= { type: Object.keys(delta)[0] });
        for (const [member, piece] of Object.entries(delta)) block[member] = (block[member] ?? '') + piece;
      }
    }
    const { choices: [{ message }] } = await runner.finalChatCompletion();
    return blocks.length > 0 ? { ...message, content_blocks: blocks } : message;
  };
  for (const [calls, thought, answer] of [[CALLS, THOUGHT, ANSWER], [SECOND_CALLS, SECOND_THOUGHT, LAST_ANSWER]]) {
    const first = await turn();
    assert.deepEqual(first.tool_calls.map((c) => ({ name: c.function.name, args: JSON.parse(c.function.arguments) })), calls);
    if (thinks) assert.equal(first.content_blocks.find((b) => b.type === 'thinking').thinking, thought);
    messages.push(first, ...first.tool_calls.map((c) => ({ role: 'tool', tool_call_id: c.id, content: run(c.function.name, JSON.parse(c.function.arguments)) })));
    const second = await turn();
    assert.equal(second.content, answer);
    messages.push(second, { role: 'user', content: [{ type: 'text', text: LOOK }, { type: 'image_url', image_url: { url: DATA_URL } }] });
  }
}));

for (const remembered of [false, true]) {
  describe(`openai, responses, ${remembered ? 'previous_response_id' : 'input'}`, () => matrix(async ({ slug, model, stream, thinks }) => {
    const openai = new OpenAI({ baseURL: world.gateway.url, apiKey: world.key, maxRetries: 0, defaultHeaders: { 'x-gw-provider': slug } });
    const tools = TOOLS.map(({ name, description, schema }) => ({ type: 'function', name, description, parameters: schema, strict: true }));
    const asks = thinks && { thinking: { type: 'enabled', budget_tokens: 1500 } };
    const all = [];
    let previous;
    const turn = async (...input) => {
      all.push(...input);
      const body = { model, instructions: SYSTEM, tools, store: remembered, include: ['reasoning.encrypted_content'], ...asks };
      Object.assign(body, remembered ? { input, previous_response_id: previous } : { input: all });
      const answer = stream ? await openai.responses.stream(body).finalResponse() : await openai.responses.create(body);
      previous = answer.id;
      all.push(...answer.output);
      return answer;
    };
    let question = { role: 'user', content: QUESTION };
    for (const [calls, thought, answer] of [[CALLS, THOUGHT, ANSWER], [SECOND_CALLS, SECOND_THOUGHT, LAST_ANSWER]]) {
      const first = await turn(question);
      const made = first.output.filter((i) => i.type === 'function_call');
      assert.deepEqual(made.map((c) => ({ name: c.name, args: JSON.parse(c.arguments) })), calls);
      if (thinks) assert.equal(first.output[0].summary.map((s) => s.text).join(''), thought);
      const second = await turn(...made.map((c) => ({ type: 'function_call_output', call_id: c.call_id, output: run(c.name, JSON.parse(c.arguments)) })));
      assert.equal(second.output_text, answer);
      question = { role: 'user', content: [{ type: 'input_text', text: LOOK }, { type: 'input_image', image_url: DATA_URL, detail: 'auto' }] };
    }
  }));
}

for (const [version, SDK] of Object.entries({ newest: Anthropic, '0.60': Anthropic060 })) {
  describe(`@anthropic-ai/sdk, ${version}`, () => matrix(async ({ slug, model, stream, thinks }) => {
    const anthropic = new SDK({ baseURL: world.gateway.url.replace(/\/v1$/, ''), apiKey: world.key, maxRetries: 0 });
    const tools = TOOLS.map(({ name, description, schema }) => ({ name, description, input_schema: schema }));
    const messages = [{ role: 'user', content: QUESTION }];
    const asks = thinks && { thinking: { type: 'enabled', budget_tokens: 1500 } };
    const turn = async () => {
      const body = { model: `@${slug}/${model}`, max_tokens: 2000, system: SYSTEM, messages, tools, ...asks };
      const answer = stream ? await anthropic.messages.stream(body).finalMessage() : await anthropic.messages.create(body);
      messages.push({ role: 'assistant', content: answer.content });
      return answer;
    };
    for (const [calls, thought, answer] of [[CALLS, THOUGHT, ANSWER], [SECOND_CALLS, SECOND_THOUGHT, LAST_ANSWER]]) {
      const first = await turn();
      const made = first.content.filter((b) => b.type === 'tool_use');
      assert.deepEqual(made.map(({ name, input: args }) => ({ name, args })), calls);
      if (thinks) assert.equal(first.content[0].thinking, thought);
      messages.push({ role: 'user', content: made.map((b) => ({ type: 'tool_result', tool_use_id: b.id, content: run(b.name, b.input) })) });
      const second = await turn();
      assert.equal(second.content.filter((b) => b.type === 'text').map((b) => b.text).join(''), answer);
      messages.push({ role: 'user', content: [{ type: 'text', text: LOOK }, { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PICTURE } }] });
    }
  }));
}

describe('ai', () => {
  const tools = Object.fromEntries(TOOLS.map(({ name, description, schema }) => [
    name, tool({ description, inputSchema: jsonSchema(schema), execute: (args) => (name === 'get_weather' ? JSON.parse(run(name, args)) : run(name, args)) }),
  ]));

  async function holds(model, stream, more = {}) {
    const messages = [{ role: 'user', content: QUESTION }];
    for (const [calls, thought, answer] of [[CALLS, THOUGHT, ANSWER], [SECOND_CALLS, SECOND_THOUGHT, LAST_ANSWER]]) {
      const options = { model, system: SYSTEM, messages, tools, stopWhen: stepCountIs(3), maxRetries: 0, ...more };
      let result;
      if (stream) {
        result = streamText({ ...options, onError: () => {} });
        for await (const part of result.fullStream) if (part.type === 'error') throw part.error;
      } else {
        result = await generateText(options);
      }
      assert.equal(await result.text, answer);
      const [first] = await result.steps;
      assert.deepEqual(first.toolCalls.map((c) => ({ name: c.toolName, args: c.input })), calls);
      if (more.providerOptions?.anthropic) assert.equal(first.reasoningText, thought);
      messages.push(...(await result.response).messages, { role: 'user', content: [{ type: 'text', text: LOOK }, { type: 'image', image: PICTURE, mediaType: 'image/png' }] });
    }
  }

  const openai = (slug) => createOpenAI({ baseURL: world.gateway.url, apiKey: world.key, headers: { 'x-gw-provider': slug } });
  describe('@ai-sdk/openai, chat', () => matrix(({ slug, model, stream }) => holds(openai(slug).chat(model), stream)));
  describe('@ai-sdk/openai, responses', () => matrix(({ slug, model, stream }) => holds(openai(slug).responses(model), stream)));
  describe('@ai-sdk/anthropic', () => matrix(({ slug, model, stream, thinks }) => {
    const anthropic = createAnthropic({ baseURL: world.gateway.url, apiKey: world.key, headers: { 'x-gw-provider': slug } });
    return holds(anthropic(model), stream, thinks && { providerOptions: { anthropic: { thinking: { type: 'enabled', budgetTokens: 1500 } } } });
  }));
});

for (const useResponsesApi of [false, true]) {
  describe(`@langchain/openai, ${useResponsesApi ? 'responses' : 'chat completions'}`, () => matrix(async ({ slug, model, stream }) => {
    const chat = new ChatOpenAI({
      model, apiKey: world.key, maxRetries: 0, useResponsesApi, streamUsage: true,
      configuration: { baseURL: world.gateway.url, defaultHeaders: { 'x-gw-provider': slug } },
    }).bindTools(TOOLS.map(({ name, description, schema }) => ({ type: 'function', function: { name, description, parameters: schema } })));
    const messages = [new SystemMessage(SYSTEM), new HumanMessage(QUESTION)];
    const turn = async () => {
      let all;
      if (stream) for await (const chunk of await chat.stream(messages)) all = all ? all.concat(chunk) : chunk;
      else all = await chat.invoke(messages);
      messages.push(all);
      return all;
    };
    for (const [calls, , answer] of [[CALLS, THOUGHT, ANSWER], [SECOND_CALLS, SECOND_THOUGHT, LAST_ANSWER]]) {
      const first = await turn();
      assert.deepEqual(first.tool_calls.map(({ name, args }) => ({ name, args })), calls);
      messages.push(...first.tool_calls.map((c) => new ToolMessage({ tool_call_id: c.id, name: c.name, content: run(c.name, c.args) })));
      assert.equal((await turn()).text, answer);
      messages.push(new HumanMessage({ content: [{ type: 'text', text: LOOK }, { type: 'image_url', image_url: { url: DATA_URL } }] }));
    }
  }));
}
