// What goes wrong at a provider reaches every official client as the error of its own
// that it has for that; and embeddings, in whatever shape the provider gives them.
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { createOpenAI } from '@ai-sdk/openai';
import { createAnthropic } from '@ai-sdk/anthropic';
import Anthropic from '@anthropic-ai/sdk';
import { ChatOpenAI } from '@langchain/openai';
import { Mistral } from '@mistralai/mistralai';
import { MistralError } from '@mistralai/mistralai/models/errors';
import { APICallError, generateText, streamText } from 'ai';
import OpenAI from 'openai';
import { slugOf, startTranslated } from './translated.mjs';
import { VECTORS } from './wire/common.mjs';

let world;
before(async () => { world = await startTranslated(); });
after(() => world?.close());
afterEach(() => { world.providers.take(); });

const EVERY = ['openai', 'anthropic', 'google', 'cohere', 'mistral', 'azure', 'bedrock'];
const LIMITED = /Too many tokens/;
const REFUSED = /No such thing/;
const BROKEN = /The server had an error/;

const messages = [{ role: 'user', content: 'hi' }];
const root = () => world.gateway.url.replace(/\/v1$/, '');
const openai = (name) => new OpenAI({ baseURL: world.gateway.url, apiKey: world.key, maxRetries: 0, defaultHeaders: { 'x-gw-provider': slugOf(name) } });
const anthropic = (name) => new Anthropic({ baseURL: root(), apiKey: world.key, maxRetries: 0, defaultHeaders: { 'x-gw-provider': slugOf(name) } });

async function drain(stream) {
  const all = [];
  for await (const part of await stream) all.push(part);
  return all;
}

for (const name of EVERY) {
  describe(name, () => {
    describe('429', () => {
      const check = (kind) => (error) => {
        assert.ok(error instanceof kind, String(error));
        assert.equal(error.status, 429);
        assert.match(error.message, LIMITED);
        assert.equal(error.headers.get('retry-after'), '7');
        return true;
      };
      for (const stream of [false, true]) {
        test(`openai${stream ? ', streamed' : ''}`, () => assert.rejects(openai(name).chat.completions.create({ model: 'limited', messages, stream }), check(OpenAI.RateLimitError)));
        test(`openai, responses${stream ? ', streamed' : ''}`, () => assert.rejects(openai(name).responses.create({ model: 'limited', input: 'hi', stream }), check(OpenAI.RateLimitError)));
        test(`@anthropic-ai/sdk${stream ? ', streamed' : ''}`, () => assert.rejects(anthropic(name).messages.create({ model: 'limited', max_tokens: 9, messages, stream }), (error) => {
          check(Anthropic.RateLimitError)(error);
          assert.equal(error.error.type, 'error');
          assert.match(error.error.error.message, LIMITED);
          return true;
        }));
      }
      test('ai', async () => {
        const model = createOpenAI({ baseURL: world.gateway.url, apiKey: world.key, headers: { 'x-gw-provider': slugOf(name) } }).chat('limited');
        await assert.rejects(generateText({ model, messages, maxRetries: 0 }), (error) => {
          assert.ok(APICallError.isInstance(error), String(error));
          assert.equal(error.statusCode, 429);
          assert.equal(error.isRetryable, true);
          assert.match(error.message, LIMITED);
          assert.equal(error.responseHeaders['retry-after'], '7');
          return true;
        });
      });
      test('@langchain/openai', () => {
        const chat = new ChatOpenAI({ model: 'limited', apiKey: world.key, maxRetries: 0, configuration: { baseURL: world.gateway.url, defaultHeaders: { 'x-gw-provider': slugOf(name) } } });
        return assert.rejects(chat.invoke('hi'), (error) => error.status === 429 && LIMITED.test(error.message));
      });
      test('@mistralai/mistralai', () => {
        const mistral = new Mistral({ serverURL: root(), apiKey: world.key, retryConfig: { strategy: 'none' } });
        return assert.rejects(mistral.chat.complete({ model: `@${slugOf(name)}/limited`, messages }), (error) => {
          assert.ok(error instanceof MistralError, String(error));
          assert.equal(error.statusCode, 429);
          assert.match(error.body, LIMITED);
          return true;
        });
      });
    });

    describe('400', () => {
      test('openai', () => assert.rejects(openai(name).chat.completions.create({ model: 'refused', messages }), (error) => {
        assert.ok(error instanceof OpenAI.BadRequestError, String(error));
        assert.equal(error.status, 400);
        assert.match(error.message, REFUSED);
        assert.equal(typeof error.type, 'string');
        if (name === 'azure') assert.equal(error.code, 'content_filter');
        return true;
      }));
      test('openai, responses', () => assert.rejects(openai(name).responses.create({ model: 'refused', input: 'hi' }), (error) => error instanceof OpenAI.BadRequestError && REFUSED.test(error.message)));
      test('@anthropic-ai/sdk', () => assert.rejects(anthropic(name).messages.create({ model: 'refused', max_tokens: 9, messages }), (error) => {
        assert.ok(error instanceof Anthropic.BadRequestError, String(error));
        assert.match(error.error.error.message, REFUSED);
        assert.equal(error.error.error.type, 'invalid_request_error');
        return true;
      }));
      test('ai, in Messages', async () => {
        const model = createAnthropic({ baseURL: world.gateway.url, authToken: world.key, headers: { 'x-gw-provider': slugOf(name) } })('refused');
        await assert.rejects(generateText({ model, messages, maxRetries: 0 }), (error) => APICallError.isInstance(error) && error.statusCode === 400 && REFUSED.test(error.message));
      });
    });

    describe('an error in the middle of a stream', () => {
      test('openai', () => assert.rejects(drain(openai(name).chat.completions.create({ model: 'breaking', messages, stream: true })), (error) => {
        assert.ok(error instanceof OpenAI.APIError, String(error));
        assert.match(error.message, BROKEN);
        return true;
      }));
      test('openai, responses', async () => {
        // It comes as an event: the client raises it, or hands it on.
        const events = await drain(openai(name).responses.create({ model: 'breaking', input: 'hi', stream: true })).catch((error) => [error]);
        const last = events.at(-1);
        assert.match(last.message ?? last.response?.error?.message ?? last.error?.message ?? JSON.stringify(last), BROKEN);
        assert.ok(!events.some((e) => e.type === 'response.completed'));
      });
      test('@anthropic-ai/sdk', () => assert.rejects(drain(anthropic(name).messages.create({ model: 'breaking', max_tokens: 9, messages, stream: true })), (error) => {
        assert.ok(error instanceof Anthropic.APIError, String(error));
        assert.match(error.message, BROKEN);
        return true;
      }));
      test('@anthropic-ai/sdk, its helper', () => assert.rejects(anthropic(name).messages.stream({ model: 'breaking', max_tokens: 9, messages }).finalMessage(), BROKEN));
      test('ai', async () => {
        const model = createOpenAI({ baseURL: world.gateway.url, apiKey: world.key, headers: { 'x-gw-provider': slugOf(name) } }).chat('breaking');
        const parts = await drain(streamText({ model, messages, maxRetries: 0, onError() {} }).fullStream);
        const failed = parts.find((p) => p.type === 'error');
        assert.match(String(failed?.error?.message ?? JSON.stringify(failed?.error)), BROKEN);
      });
      test('@langchain/openai', () => {
        const chat = new ChatOpenAI({ model: 'breaking', apiKey: world.key, maxRetries: 0, configuration: { baseURL: world.gateway.url, defaultHeaders: { 'x-gw-provider': slugOf(name) } } });
        return assert.rejects(drain(chat.stream('hi')), BROKEN);
      });
    });

    describe('a stream whose connection breaks', () => {
      test('openai', () => assert.rejects(drain(openai(name).chat.completions.create({ model: 'cut', messages, stream: true })), OpenAI.APIError));
      test('@anthropic-ai/sdk', () => assert.rejects(drain(anthropic(name).messages.create({ model: 'cut', max_tokens: 9, messages, stream: true })), Anthropic.APIError));
      test('openai, responses', async () => {
        const events = await drain(openai(name).responses.create({ model: 'cut', input: 'hi', stream: true })).catch((error) => [error]);
        assert.ok(events.at(-1) instanceof OpenAI.APIError || ['error', 'response.failed'].includes(events.at(-1).type), JSON.stringify(events.at(-1)));
      });
    });
  });
}

describe('embeddings', () => {
  const models = { openai: 'text-embedding-3-small', google: 'gemini-embedding-001', cohere: 'embed-v4.0', mistral: 'mistral-embed', azure: 'text-embedding-3-small' };
  const input = ['first "text"', 'second text'];
  for (const [name, model] of Object.entries(models)) {
    // The client asks for base64 by default, and returns numbers.
    for (const encoding_format of [undefined, 'float', 'base64']) {
      test(`${name}, ${encoding_format ?? 'by default'}`, async () => {
        const answer = await openai(name).embeddings.create({ model, input, ...(encoding_format && { encoding_format }) });
        assert.equal(answer.object, 'list');
        assert.equal(answer.model, model);
        const got = answer.data.map((d) => (typeof d.embedding === 'string' ? [...new Float32Array(Uint8Array.from(Buffer.from(d.embedding, 'base64')).buffer)] : [...d.embedding]));
        assert.equal(typeof answer.data[0].embedding === 'string', encoding_format === 'base64');
        assert.deepEqual(got, VECTORS);
        assert.deepEqual(answer.data.map((d) => d.index), [0, 1]);
        if (name !== 'google') assert.deepEqual(answer.usage, { prompt_tokens: 8, total_tokens: 8 });
      });
    }
    test(`${name}, with dimensions and a user`, async () => {
      const answer = await openai(name).embeddings.create({ model, input, dimensions: 3, user: 'u' });
      assert.deepEqual(answer.data.map((d) => [...d.embedding]), VECTORS);
      const [{ body }] = world.providers.take();
      assert.equal(body.dimensions ?? body.output_dimension ?? body.requests?.[0].outputDimensionality, 3);
    });
  }
});
