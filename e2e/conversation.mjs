// The conversation that every client holds with every provider: a question, two tools
// called at once, their results, the answer; and then one about a picture, with one tool
// called twice at once. One of the tools takes no arguments, and the texts hold what has to
// be escaped. Short conversations end after the first answer.
import { isDeepStrictEqual } from 'node:util';
import { scene } from './agents.mjs';
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

export const LOOK = 'Which city is it in this picture: Bern or Basel? And how is the weather there?';
/** A PNG of one pixel, in base64. */
export const PICTURE = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
export const SECOND_THOUGHT = 'The picture shows "one" of two;\nask for both.';
export const SECOND_CALLS = ['Bern', 'Basel'].map((city) => ({ name: 'get_weather', args: { city, unit: 'fahrenheit' } }));
export const LAST_ANSWER = 'Basel 🌉: it is \\ 64 °F there.';
const SECOND_RESULTS = { Bern: '{"temperature":61}', Basel: '{"temperature":64,"sky":null}' };

export function run(name, args) {
  demand([...CALLS, ...SECOND_CALLS].some((c) => c.name === name && isDeepStrictEqual(c.args, args)), name, `arguments ${JSON.stringify(args)}`);
  return SECOND_RESULTS[args.city] ?? RESULTS[name];
}

/** What each turn costs, as OpenAI counts; every provider has its own way to say it. */
export const USAGE = { prompt: 82, completion: 17, total: 99 };

// What is said by whom, in order. A model that thinks does so before what has a thought.
const SCRIPT = [
  { user: QUESTION, images: [] },
  { thought: THOUGHT, text: PREAMBLE, calls: CALLS },
  { results: CALLS.map((c) => run(c.name, c.args)) },
  { thought: THOUGHT, text: ANSWER, calls: [] },
  { user: LOOK, images: [`image/png ${PICTURE}`] },
  { thought: SECOND_THOUGHT, text: PREAMBLE, calls: SECOND_CALLS },
  { results: SECOND_CALLS.map((c) => run(c.name, c.args)) },
  { thought: SECOND_THOUGHT, text: LAST_ANSWER, calls: [] },
];

/** What the model says first, and after the results of the first calls. */
export const [, FIRST, , SECOND] = SCRIPT;

/**
 * Checks what a request means, in no provider's words, and returns what the model says
 * next: { thought, text, calls: [{ name, args }], before, turn }. before is the number of
 * calls in earlier turns, and turn how often the model has spoken then, from 1.
 *
 * said is { system, tools: [{ name, description, schema }], turns }, and a turn one of
 *   { user, images: ['<type> <base64>'] }
 *   { text, calls: [{ id, name, args }], thoughts: [text] }, thoughts being what came back of them
 *   { results: [{ id, name, text }] }
 * Where a dialect has no ids, there are none. A model that is blind has no images.
 */
export function replyTo(said, blind = false) {
  const reply = scene(said) ?? scripted(said, blind);
  const spoken = said.turns.filter((t) => t.calls);
  return { ...reply, before: spoken.reduce((n, t) => n + t.calls.length, 0), turn: spoken.length + 1 };
}

function scripted({ system, tools, turns }, blind) {
  equal(system, SYSTEM, 'system');
  // Schemas come as they were. Some clients add the dialect's own name to them.
  equal(tools.map(({ schema: { $schema, ...schema }, ...tool }) => ({ ...tool, schema })), TOOLS, 'tools');
  demand(turns.length % 2 === 1 && turns.length < SCRIPT.length, 'turns', `${turns.length} of them`);
  turns.forEach((turn, i) => {
    const at = `turn ${i}`;
    const want = SCRIPT[i];
    if (want.user) {
      equal([turn.user, turn.images], [want.user, blind ? [] : want.images], at);
    } else if (want.calls) {
      equal(turn.calls.map(({ name, args }) => ({ name, args })), want.calls, `${at}: calls`);
      if (want.calls.length === 0) equal(turn.text, want.text, `${at}: text`);
      for (const thought of turn.thoughts) equal(thought, want.thought, `${at}: thought`);
    } else {
      matched(turn, turns[i - 1].calls, want.results, at);
    }
  });
  return SCRIPT[turns.length];
}

/** Checks that each call has its result. Where there are no ids, they come in order. */
function matched({ results }, calls, want, at) {
  equal(results?.length, calls.length, `${at}: number of results`);
  calls.forEach((call, i) => {
    const result = call.id === undefined ? results[i] : results.find((r) => r.id === call.id);
    demand(result, at, `no result of call ${i}, ${call.id ?? call.name}: ${JSON.stringify(results)}`);
    if (result.name !== undefined) equal(result.name, call.name, `${at}: name of result ${i}`);
    equal(result.text, want[i], `${at}: result of ${call.name}`);
  });
}
