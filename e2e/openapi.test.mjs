// The OpenAPI document is one, as two validators see it.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { validate } from '@scalar/openapi-parser';
import { Validator } from '@seriousme/openapi-schema-validator';
import { startTranslated } from './translated.mjs';

let world, document;
before(async () => {
  world = await startTranslated();
  document = await (await fetch(`${world.gateway.url}/openapi.json`)).json();
});
after(() => world?.close());

test('by the schema of OpenAPI', async () => {
  const { valid, errors } = await new Validator().validate(structuredClone(document));
  assert.ok(valid, JSON.stringify(errors));
});

test('by a parser, with its references', async () => {
  const { valid, errors } = await validate(structuredClone(document));
  assert.ok(valid, JSON.stringify(errors));
});
