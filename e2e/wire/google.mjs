// Google's Gemini: generateContent of the second generation of models, whose calls have
// no ids, and of the third, which wants the signature of the first call of a turn back.
import { createHash } from 'node:crypto';
import { QUESTION, replyTo, SECOND, SYSTEM, USAGE } from '../conversation.mjs';
import { addResult, pieces, scripted, VECTORS } from './common.mjs';
import { any, boolean, demand, either, equal, filled, integer, is, like, list, number, object, open, text } from './shape.mjs';

const signed = { thoughtSignature: filled };
const part = either(
  object({ text }, { ...signed, thought: boolean }),
  object({ inlineData: object({ mimeType: is('image/png', 'image/jpeg', 'image/webp'), data: like(/^[A-Za-z0-9+/]+=*$/) }) }),
  object({ functionCall: object({ name: filled, args: open }, { id: filled }) }, signed),
  object({ functionResponse: object({ name: filled, response: open }, { id: filled }) }),
);
// A schema of the API's own, which is not JSON Schema.
const schema = (v, at) => object({}, {
  type: is(...['object', 'string', 'boolean', 'number', 'integer', 'array'].flatMap((t) => [t, t.toUpperCase()])), description: text, enum: list(filled), required: list(filled),
  format: filled, nullable: boolean, items: (v, where) => schema(v, where), minItems: integer, maxItems: integer, minimum: number, maximum: number, pattern: text, default: any, title: text,
  anyOf: list((v, where) => schema(v, where), 1), minLength: integer, maxLength: integer, propertyOrdering: list(filled),
  properties: (p, where) => { open(p, where); for (const [name, of] of Object.entries(p)) schema(of, `${where}.${name}`); },
})(v, at);
const declaration = object({ name: filled }, { description: text, parameters: schema, parametersJsonSchema: open });
const request = object({ contents: list(object({ role: is('user', 'model'), parts: list(part, 1) }), 1) }, {
  systemInstruction: object({ parts: list(object({ text: filled }), 1) }, { role: any }),
  tools: list(object({ functionDeclarations: list(declaration, 1) }), 1),
  toolConfig: object({ functionCallingConfig: object({ mode: is('AUTO', 'ANY', 'NONE') }, { allowedFunctionNames: list(filled) }) }),
  generationConfig: object({}, {
    maxOutputTokens: integer, temperature: number, topP: number, topK: number, stopSequences: list(filled), seed: integer, candidateCount: integer,
    thinkingConfig: object({}, { includeThoughts: boolean, thinkingBudget: integer, thinkingLevel: filled }),
  }),
  safetySettings: list(any),
});

/** The signature of a call, which is checked when it comes back. */
const sign = ({ name, args }) => `CiQB0e2Kb9/${createHash('sha256').update(JSON.stringify([name, args])).digest('base64')}`;
/** What Google has callers send where they cannot have the signature. */
export const UNSIGNED = 'skip_thought_signature_validator';
const third = (model) => model.startsWith('gemini-3');
const IDS = ['yc5g4w6f', 'x8h2k1mm', 'd3r7t9v2', 'b6n1q4z8'];

/** The text of a function's response: an object stands as it is, a text in a member. */
function textOf(response, at) {
  if (Object.keys(response).join() !== 'output') return JSON.stringify(response);
  demand(!/^\{.*\}$/.test(response.output), at, 'an object as text');
  return response.output;
}

function read(body, model) {
  const plain = (parts) => parts.filter((p) => !p.thought).map((p) => p.text ?? '').join('');
  const declared = (body.tools ?? []).flatMap((t) => t.functionDeclarations);
  const said = {
    system: body.systemInstruction && plain(body.systemInstruction.parts), turns: [],
    tools: declared.map(({ name, description, parameters, parametersJsonSchema }) => {
      demand(!parameters || !parametersJsonSchema, 'tools', 'parameters twice');
      // Of a function without parameters none need be said.
      return { name, description, schema: parametersJsonSchema ?? { type: 'object', properties: {}, ...parameters, additionalProperties: false } };
    }),
  };
  body.contents.forEach(({ role, parts }, i) => {
    const at = `contents[${i}]`;
    demand(role === 'user' || i > 0 && body.contents[i - 1].role === 'user', `${at}.role`, 'a turn of the model that follows none of the user');
    const calls = parts.filter((p) => p.functionCall);
    const results = parts.flatMap((p) => p.functionResponse ?? []);
    const images = parts.flatMap((p) => p.inlineData ?? []).map(({ mimeType, data }) => `${mimeType} ${data}`);
    if (role === 'model') {
      equal(results, [], `${at}: results of the model's`);
      said.turns.push({
        text: plain(parts), thoughts: parts.filter((p) => p.thought).map((p) => p.text),
        calls: calls.map(({ functionCall: { id, name, args } }) => ({ id, name, args })),
      });
      if (calls.length > 0 && third(model)) {
        demand([sign(calls[0].functionCall), UNSIGNED].includes(calls[0].thoughtSignature), at, `function call ${calls[0].functionCall.name} is missing a thought_signature`);
        calls.slice(1).forEach((c) => demand(!c.thoughtSignature || c.thoughtSignature === UNSIGNED, at, 'the signature of another call'));
        const next = body.contents[i + 1]?.parts.filter((p) => p.functionResponse) ?? [];
        equal(next.map((p) => p.functionResponse.id), calls.map((c) => c.functionCall.id), `${at}: ids of calls and of their responses`);
        calls.forEach((c) => demand(c.functionCall.id, at, 'a call without an id'));
      }
      return;
    }
    equal(calls, [], `${at}: calls of the user's`);
    const waiting = (body.contents[i - 1]?.parts ?? []).filter((p) => p.functionCall).length;
    equal(results.length, waiting, `${at}: as many responses as calls`);
    for (const r of results) addResult(said, { id: r.id, name: r.name, text: textOf(r.response, `${at}: response of ${r.name}`) });
    if (parts.length > results.length) said.turns.push({ user: plain(parts), images });
  });
  return replyTo(said);
}

const usageMetadata = {
  promptTokenCount: USAGE.prompt, cachedContentTokenCount: 20, candidatesTokenCount: USAGE.completion - 7, thoughtsTokenCount: 7, totalTokenCount: USAGE.total,
  promptTokensDetails: [{ modality: 'TEXT', tokenCount: USAGE.prompt }],
};

function parts(model, { thought, text: said, calls, before }, thoughts) {
  return [
    ...(thoughts ? [{ text: thought, thought: true }] : []), { text: said },
    ...calls.map((c, i) => ({
      functionCall: { name: c.name, args: c.args, ...(third(model) && { id: IDS[before + i] }) },
      ...(third(model) && i === 0 && { thoughtSignature: sign(c) }),
    })),
  ];
}

const answer = (model, content, more) => ({
  candidates: [{ content: { parts: content, role: 'model' }, index: 0, ...more }], usageMetadata, modelVersion: model, responseId: 'W81gar6JN_K1qtsP4',
});
const finished = ({ calls }) => ({ finishReason: 'STOP', ...(calls.length > 0 && { finishMessage: 'Model generated function call(s).' }) });
const sse = (data) => `data: ${JSON.stringify(data)}\r\n\r\n`;

// Texts come in pieces, calls one a piece; the end comes with an empty text.
function events(model, reply, thoughts) {
  const out = parts(model, reply, thoughts).flatMap((p) => (p.text ? pieces(p.text).map((t) => ({ ...p, text: t })) : [p]));
  return [...out.map((p) => sse(answer(model, [p]))), sse(answer(model, [{ text: '', ...(reply.calls.length === 0 && third(model) && { thoughtSignature: sign({ name: reply.text }) }) }], finished(reply)))];
}

const words = { 400: 'INVALID_ARGUMENT', 429: 'RESOURCE_EXHAUSTED', 503: 'UNAVAILABLE' };
const error = (code, message) => ({ error: { code, message, status: words[code], details: [{ '@type': 'type.googleapis.com/google.rpc.Help', links: [] }] } });
const failure = (status, message) => ({ status, headers: status === 429 ? { 'retry-after': '7' } : {}, body: error(status, message) });

/** Answers generateContent, whole and streamed. */
export function generated(model, verb, body) {
  demand(verb === 'generateContent' || verb === 'streamGenerateContent?alt=sse', 'path', `no ${verb}`);
  const script = scripted(model, { failure, begun: () => events(model, SECOND).slice(0, 2), breaks: [sse(error(503, 'The server had an error'))] });
  if (script) return script;
  request(body, 'body');
  const reply = read(body, model);
  const thoughts = body.generationConfig?.thinkingConfig?.includeThoughts;
  if (verb !== 'generateContent') return { events: events(model, reply, thoughts) };
  return { body: answer(model, parts(model, reply, thoughts), finished(reply)) };
}

const embedRequest = object({ requests: list(object({ model: filled, content: object({ parts: list(object({ text: filled }), 1) }) }, { taskType: filled, title: filled, outputDimensionality: integer }), 1) });

export const google = {
  credential: (key) => ['x-goog-api-key', key],
  failure,
  answer(method, path, body) {
    const [, model, verb] = /^\/v1beta\/models\/([^/:]+):(.*)$/.exec(path) ?? [];
    demand(model && method === 'POST', 'path', `no ${method} ${path}`);
    if (verb === 'batchEmbedContents') {
      embedRequest(body, 'body');
      for (const r of body.requests) equal(r.model, `models/${model}`, 'model of an embedding');
      return { body: { embeddings: VECTORS.map((values) => ({ values })) } };
    }
    if (verb === 'countTokens') {
      object({ generateContentRequest: open }, {})(body, 'body');
      equal(body.generateContentRequest.model, `models/${model}`, 'model to count for');
      const { model: _, ...rest } = body.generateContentRequest;
      request(rest, 'body.generateContentRequest');
      equal([rest.systemInstruction.parts[0].text, rest.contents[0].parts[0].text], [SYSTEM, QUESTION], 'what is counted');
      return { body: { totalTokens: USAGE.prompt, promptTokensDetails: [{ modality: 'TEXT', tokenCount: USAGE.prompt }] } };
    }
    return generated(model, verb, body);
  },
};
