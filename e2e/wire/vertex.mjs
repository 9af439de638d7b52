// Vertex AI: Gemini as Google's own API has it, Claude in bodies of Messages, and the login of
// a service account, which signs for a token.
import { createVerify, generateKeyPairSync } from 'node:crypto';
import { invoked } from './anthropic.mjs';
import { generated } from './google.mjs';
import { demand, equal } from './shape.mjs';

export const PROJECT = 'team-of-the-e2e-123456';
export const LOCATION = 'europe-west1';

const EMAIL = `gateway@${PROJECT}.iam.gserviceaccount.com`;
const SCOPE = 'https://www.googleapis.com/auth/cloud-platform';
const TOKEN = 'ya29.c.token-of-the-service-account';
const keys = generateKeyPairSync('rsa', { modulusLength: 2048, publicKeyEncoding: { type: 'spki', format: 'pem' }, privateKeyEncoding: { type: 'pkcs8', format: 'pem' } });

/** The JSON key of the service account, whose tokens come from below url. */
export const serviceAccount = (url) => JSON.stringify({
  type: 'service_account', project_id: PROJECT, private_key_id: 'a1b2c3', private_key: keys.privateKey, client_email: EMAIL, token_uri: `${url}/vertex/token`,
});

/** Answers a request for a token (RFC 7523). */
function token(raw) {
  const form = new URLSearchParams(raw);
  equal(form.get('grant_type'), 'urn:ietf:params:oauth:grant-type:jwt-bearer', 'grant_type');
  const [header, claims, signature] = form.get('assertion').split('.');
  demand(createVerify('RSA-SHA256').update(`${header}.${claims}`).verify(keys.publicKey, signature, 'base64url'), 'assertion', 'not signed by the account');
  const { iss, scope, aud, iat, exp } = JSON.parse(Buffer.from(claims, 'base64url'));
  equal([iss, scope, new URL(aud).pathname], [EMAIL, SCOPE, '/vertex/token'], 'claims');
  demand(exp > Date.now() / 1000 && exp - iat <= 3600, 'claims', `valid from ${iat} to ${exp}`);
  return { body: { access_token: TOKEN, expires_in: 3599, token_type: 'Bearer' } };
}

const words = { 400: 'INVALID_ARGUMENT', 429: 'RESOURCE_EXHAUSTED' };

export const vertex = {
  authorize({ url, headers }) {
    if (!url.endsWith('/token')) equal(headers.authorization, `Bearer ${TOKEN}`, 'authorization');
  },
  raw: (path) => path === '/token',
  failure: (status, message) => ({ status, headers: status === 429 ? { 'retry-after': '7' } : {}, body: { error: { code: status, message, status: words[status] } } }),
  answer(method, path, body) {
    equal(method, 'POST', 'method');
    if (path === '/token') return token(body);
    const below = `/v1/projects/${PROJECT}/locations/${LOCATION}/publishers/`;
    demand(path.startsWith(below), 'path', `no ${path}`);
    const [, publisher, model, verb] = /^([a-z]+)\/models\/([^/:]+):(.*)$/.exec(path.slice(below.length)) ?? [];
    if (publisher === 'google') return generated(model, verb, body);
    equal(publisher, 'anthropic', 'publisher');
    demand(['rawPredict', 'streamRawPredict'].includes(verb), 'path', `no ${verb}`);
    const stream = verb === 'streamRawPredict';
    equal([body.anthropic_version, body.stream ?? false], ['vertex-2023-10-16', stream], 'version and stream of the body');
    return invoked(body, model, stream);
  },
};
