// What several providers share: texts in pieces, models that fail, results, and of OpenAI's
// form its images, ids, errors and embeddings.
import { is, like, object } from './shape.mjs';

/** Cuts a text into pieces of n characters. */
export const pieces = (s, n = 5) => [...s].reduce((out, c, i) => { if (i % n === 0) out.push(''); out[out.length - 1] += c; return out; }, []);

/** What goes wrong with a model of a name, or undefined. */
export function scripted(model, say) {
  if (model === 'limited') return say.failure(429, 'Too many tokens');
  if (model === 'refused') return say.failure(400, 'No such thing');
  if (model === 'breaking') return { events: [...say.begun(), ...say.breaks] };
  if (model === 'cut') return { events: say.begun(), broken: true };
  return undefined;
}

/** Adds a result to the last turn, or begins one with it. */
export function addResult(said, result) {
  if (!said.turns.at(-1)?.results) said.turns.push({ results: [] });
  said.turns.at(-1).results.push(result);
}

/** An image of OpenAI's, as a data URL. */
export const imageURL = object({ type: is('image_url'), image_url: object({ url: like(/^data:image\/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+=*$/) }, { detail: is('auto', 'low', 'high') }) });

const url = (p) => p.image_url?.url ?? p.image_url;

/** The images of content in OpenAI's form, as turns have them. */
export const imagesOf = (content) => (typeof content === 'string' ? [] : content.filter((p) => p.image_url).map((p) => url(p).replace(/^data:(.*);base64,/, '$1 ')));

export const CALL_IDS = ['call_MbXb0PmjRgzDFbKVbP8q4bJA', 'call_0aQ3f1S2x9yLZyWm5nWk7cTt', 'call_Zb7vT1d9oGq8wLhY3sKe5RnC', 'call_p4XkN6tUa2JfMi0ErV9yBs1D'];
export const failure = (status, message, error = {}) => ({ status, headers: status === 429 ? { 'retry-after': '7' } : {}, body: { error: { message, ...KINDS[status], ...error } } });
const KINDS = {
  400: { type: 'invalid_request_error', param: 'messages', code: 'invalid_value' },
  429: { type: 'tokens', param: null, code: 'rate_limit_exceeded' },
};

export const VECTORS = [[0.25, -1.5, 3], [1, 2, -0.125]];
export const base64 = (v) => Buffer.from(Float32Array.from(v).buffer).toString('base64');

/** The answer to a call for embeddings, in OpenAI's shape. */
export const embeddings = (body) => ({
  object: 'list', model: body.model, usage: { prompt_tokens: 8, total_tokens: 8 },
  data: VECTORS.map((v, index) => ({ object: 'embedding', index, embedding: body.encoding_format === 'base64' ? base64(v) : v })),
});
