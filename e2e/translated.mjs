// A gateway before the providers of wire/, and the official clients of whom each calls
// in its own dialect.
import { startGateway } from './gateway.mjs';
import { BUCKET, ROLE } from './wire/aws.mjs';
import { ACCESS_KEY, REGION } from './wire/bedrock.mjs';
import { keyOf, startProviders } from './wire/server.mjs';
import { LOCATION, serviceAccount } from './wire/vertex.mjs';

// By slug: the provider's dialect, where its paths begin, and what it must be told.
const SLUGS = {
  openai: ['openai', 'openai/v1'],
  anthropic: ['anthropic', 'anthropic/v1'],
  google: ['google', 'google'],
  cohere: ['cohere', 'cohere'],
  mistral: ['mistral-ai', 'mistral/v1'],
  azure: ['azure-openai', 'azure/openai', { azure_api_version: '2024-10-21' }],
  azurev1: ['azure-openai', 'azure/openai'],
  bedrock: ['bedrock', 'bedrock', { aws_region: REGION, aws_access_key_id: ACCESS_KEY, aws_s3_bucket: BUCKET, aws_s3_object_key: 'gateway', aws_batch_role_arn: ROLE }],
  vertex: ['vertex-ai', 'vertex', { vertex_region: LOCATION, vertex_service_account_json: '{env.SERVICE_ACCOUNT}' }],
};

/** Starts both; resolves to { gateway, providers, key, close }. */
export async function startTranslated() {
  const providers = await startProviders();
  try {
    const gateway = await startGateway({
      env: { SERVICE_ACCOUNT: serviceAccount(providers.url) },
      providers: Object.fromEntries(Object.entries(SLUGS).map(([slug, [type, path, settings]]) => [
        slug === type ? `${slug}-prod` : slug, { type, baseURL: `${providers.url}/${path}`, key: slug !== 'vertex' && keyOf(path.split('/')[0]), settings },
      ])),
    });
    const { key } = await gateway.serviceKey();
    providers.secrets = [key, gateway.ownerKey];
    return { gateway, providers, key, close: async () => { await gateway.remove(); await providers.stop(); } };
  } catch (error) {
    await providers.stop();
    throw error;
  }
}

/** The slug under which the gateway knows a provider. */
export const slugOf = (name) => (SLUGS[name][0] === name ? `${name}-prod` : name);
