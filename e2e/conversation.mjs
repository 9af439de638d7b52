// The conversation that every client holds with every provider: a question, two tools
// called at once, their results, the answer. One of the tools takes no arguments, and
// the texts hold what has to be escaped.
import { demand, equal } from './wire/shape.mjs';

export const SYSTEM = 'Answer "briefly".\nUse the tools.';
export const QUESTION = 'How is the weather in Zürich, and what time is it? ☀';
export const PREAMBLE = 'I will look.';
export const THOUGHT = 'Weather needs "get_weather",\nthe time get_time.';
export const ANSWER = 'It is 21 °C and "clear" in Zürich 🌤,\nat 12:30.';

export const TOOLS = [
  {
    name: 'get_weather',
    description: 'The weather of a city',
    schema: {
      type: 'object',
      properties: { city: { type: 'string', description: 'Its name' }, unit: { type: 'string', enum: ['celsius', 'fahrenheit'] } },
      required: ['city', 'unit'],
      additionalProperties: false,
    },
  },
  { name: 'get_time', description: 'The time', schema: { type: 'object', properties: {}, additionalProperties: false } },
];

export const CALLS = [
  { name: 'get_weather', args: { city: 'Zürich "Süd"', unit: 'celsius' } },
  { name: 'get_time', args: {} },
];

/** What the tools answer: an object as JSON, and a text. */
export const RESULTS = { get_weather: '{"temperature":21,"sky":"klar ☀"}', get_time: '12:30' };

export function run(name, args) {
  equal(args, CALLS.find((c) => c.name === name)?.args, `arguments of ${name}`);
  return RESULTS[name];
}

/** What each turn costs, as OpenAI counts; every provider has its own way to say it. */
export const USAGE = { prompt: 82, completion: 17, total: 99 };

/**
 * Checks what a request means, in no provider's words, and returns which turn it asks
 * for, 1 or 2: { system, user, tools: [{ name, description }], calls: [{ id, name, args }],
 * results: [{ id, name, text }] }. Where a dialect has no ids, there are none.
 */
export function turnOf(said) {
  equal(said.system, SYSTEM, 'system');
  equal(said.user, QUESTION, 'user');
  equal(said.tools, TOOLS.map(({ name, description }) => ({ name, description })), 'tools');
  if (said.calls.length === 0) {
    equal(said.results, [], 'results of no call');
    return 1;
  }
  equal(said.calls.map(({ name, args }) => ({ name, args })), CALLS, 'calls');
  equal(said.results.length, CALLS.length, 'number of results');
  said.calls.forEach((call, i) => {
    const result = said.results.find((r) => (call.id === undefined ? r.name === call.name : r.id === call.id));
    demand(result, 'results', `no result of call ${i}, ${call.id ?? call.name}: ${JSON.stringify(said.results)}`);
    if (result.name !== undefined) equal(result.name, call.name, `name of result ${i}`);
    equal(result.text, RESULTS[call.name], `result of ${call.name}`);
  });
  return 2;
}
