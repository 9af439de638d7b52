// Google's Gemini: generateContent of the second generation of models, whose calls have
// no ids, and of the third, which wants the signature of the first call of a turn back.
import { ANSWER, CALLS, PREAMBLE, QUESTION, RESULTS, SYSTEM, THOUGHT, turnOf, USAGE } from '../conversation.mjs';
import { checkSchemas, pieces, scripted, VECTORS } from './openai.mjs';
import { any, boolean, demand, either, equal, filled, integer, is, list, number, object, open, text } from './shape.mjs';

const signed = { thoughtSignature: filled };
const part = either(
  object({ text }, { ...signed, thought: boolean }),
  object({ functionCall: object({ name: filled, args: open }, { id: filled }) }, signed),
  object({ functionResponse: object({ name: filled, response: open }, { id: filled }) }),
);
// A schema of the API's own, which is not JSON Schema.
const schema = (v, at) => object({}, {
  type: is('object', 'string', 'OBJECT', 'STRING'), description: text, enum: list(filled), required: list(filled), format: filled, nullable: boolean,
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

const SIGNATURE = 'CiQB0e2Kb9/signed+call==';
/** What Google has callers send where they cannot have the signature. */
export const UNSIGNED = 'skip_thought_signature_validator';
const third = (model) => model.startsWith('gemini-3');
const idOf = (i) => ['yc5g4w6f', 'x8h2k1mm'][i];

function read(body, model) {
  const plain = (parts) => parts.map((p) => p.text ?? '').join('');
  const declared = (body.tools ?? []).flatMap((t) => t.functionDeclarations);
  const said = {
    system: body.systemInstruction && plain(body.systemInstruction.parts), calls: [], results: [],
    tools: declared.map(({ name, description }) => ({ name, description })),
  };
  let signature;
  body.contents.forEach(({ role, parts }, i) => {
    const at = `contents[${i}]`;
    equal(role, i % 2 === 0 ? 'user' : 'model', `${at}.role`);
    const calls = parts.flatMap((p) => (p.functionCall ? [p] : []));
    const results = parts.flatMap((p) => (p.functionResponse ? [p.functionResponse] : []));
    if (role === 'model') {
      equal(results, [], `${at}: results of the model's`);
      for (const { functionCall: c } of calls) said.calls.push({ id: c.id, name: c.name, args: c.args });
      if (calls.length > 0 && third(model)) {
        signature = calls[0].thoughtSignature;
        demand(signature === SIGNATURE || signature === UNSIGNED, at, `function call ${calls[0].functionCall.name} is missing a thought_signature`);
        calls.slice(1).forEach((c) => demand(!c.thoughtSignature || c.thoughtSignature === UNSIGNED, at, 'the signature of another call'));
        const next = body.contents[i + 1]?.parts.filter((p) => p.functionResponse) ?? [];
        equal(next.map((p) => p.functionResponse.id), calls.map((c) => c.functionCall.id), `${at}: ids of calls and of their responses`);
        calls.forEach((c) => demand(c.functionCall.id, at, 'a call without an id'));
      }
      return;
    }
    equal(calls, [], `${at}: calls of the user's`);
    if (results.length === 0) {
      said.user = (said.user ?? '') + plain(parts);
      return;
    }
    equal(results.length, (body.contents[i - 1]?.parts ?? []).filter((p) => p.functionCall).length, `${at}: as many responses as calls`);
    for (const r of results) {
      // An object stands as it is, a text in a member.
      const whole = r.name === 'get_weather' ? JSON.parse(RESULTS[r.name]) : { output: RESULTS[r.name] };
      equal(r.response, whole, `${at}: response of ${r.name}`);
      said.results.push({ id: r.id, name: r.name, text: RESULTS[r.name] });
    }
  });
  checkSchemas(declared.map((d, i) => {
    demand(!d.parameters || !d.parametersJsonSchema, 'tools', 'parameters twice');
    if (d.parametersJsonSchema) return d.parametersJsonSchema;
    // Of a function without parameters none need be said.
    return d.parameters ? { ...d.parameters, additionalProperties: false } : { type: 'object', properties: {}, additionalProperties: false };
  }));
  return { turn: turnOf(said), signature };
}

const usageMetadata = {
  promptTokenCount: USAGE.prompt, cachedContentTokenCount: 20, candidatesTokenCount: USAGE.completion - 7, thoughtsTokenCount: 7, totalTokenCount: USAGE.total,
  promptTokensDetails: [{ modality: 'TEXT', tokenCount: USAGE.prompt }],
};

function parts(model, turn, thoughts) {
  const thought = thoughts ? [{ text: THOUGHT, thought: true }] : [];
  if (turn === 2) return [...thought, { text: ANSWER }];
  return [
    ...thought, { text: PREAMBLE },
    ...CALLS.map((c, i) => ({
      functionCall: { name: c.name, args: c.args, ...(third(model) && { id: idOf(i) }) },
      ...(third(model) && i === 0 && { thoughtSignature: SIGNATURE }),
    })),
  ];
}

const answer = (model, content, more) => ({
  candidates: [{ content: { parts: content, role: 'model' }, index: 0, ...more }], usageMetadata, modelVersion: model, responseId: 'W81gar6JN_K1qtsP4',
});
const finished = (turn) => ({ finishReason: 'STOP', ...(turn === 1 && { finishMessage: 'Model generated function call(s).' }) });
const sse = (data) => `data: ${JSON.stringify(data)}\r\n\r\n`;

// Texts come in pieces, calls one a piece; the end comes with an empty text.
function events(model, turn, thoughts) {
  const out = parts(model, turn, thoughts).flatMap((p) => (p.text ? pieces(p.text).map((t) => ({ ...p, text: t })) : [p]));
  return [...out.map((p) => sse(answer(model, [p]))), sse(answer(model, [{ text: '', ...(turn === 2 && third(model) && { thoughtSignature: SIGNATURE }) }], finished(turn)))];
}

const words = { 400: 'INVALID_ARGUMENT', 429: 'RESOURCE_EXHAUSTED', 503: 'UNAVAILABLE' };
const error = (code, message) => ({ error: { code, message, status: words[code], details: [{ '@type': 'type.googleapis.com/google.rpc.Help', links: [] }] } });
const failure = (status, message) => ({ status, headers: status === 429 ? { 'retry-after': '7' } : {}, body: error(status, message) });

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
    demand(verb === 'generateContent' || verb === 'streamGenerateContent?alt=sse', 'path', `no ${verb}`);
    const script = scripted(model, { failure, begun: () => events(model, 2).slice(0, 2), breaks: [sse(error(503, 'The server had an error'))] });
    if (script) return script;
    request(body, 'body');
    const { turn } = read(body, model);
    const thoughts = body.generationConfig?.thinkingConfig?.includeThoughts;
    if (verb !== 'generateContent') return { events: events(model, turn, thoughts) };
    return { body: answer(model, parts(model, turn, thoughts), finished(turn)) };
  },
};
