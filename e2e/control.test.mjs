// The control plane by the methods of portkey-ai, unpatched and with its own header prefix: what it
// writes it reads back, and prompts that it saved are rendered and called.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { after, before, describe, test } from 'node:test';
import { startGateway } from './gateway.mjs';

const require = createRequire(import.meta.url);
const constants = require('portkey-ai/dist/src/constants.js');
const errors = require('portkey-ai/dist/src/error.js');
const { Portkey } = require('portkey-ai');

const SECRET = 'sk-of-the-control-plane-0123456789';

describe('the control plane by portkey-ai', () => {
  let gateway, admin;

  before(async () => {
    gateway = await startGateway({ headerPrefix: constants.PORTKEY_HEADER_PREFIX });
    admin = new Portkey({ baseURL: gateway.url, apiKey: gateway.ownerKey });
  });

  after(() => gateway?.remove());

  const gone = (call) => assert.rejects(call, errors.NotFoundError);
  const ids = (list) => list.data.map((row) => row.id);

  test('configs', async () => {
    const { data: { id, slug } } = await admin.configs.create({ name: 'made', config: { provider: '@echo', retry: { attempts: 2 } } });
    const got = await admin.configs.retrieve({ slug });
    assert.equal(got.name, 'made');
    assert.equal(JSON.parse(got.config).retry.attempts, 2);
    await admin.configs.update({ slug, name: 'renamed', config: { provider: '@echo', retry: { attempts: 3 } } });
    assert.equal(JSON.parse((await admin.configs.retrieve({ slug })).config).retry.attempts, 3);
    assert.deepEqual(ids(await admin.configs.list({})), [id]);
    await admin.configs.delete({ slug });
    await gone(admin.configs.retrieve({ slug }));
  });

  test('integrations, their models and workspaces, and providers', async () => {
    const { id, slug } = await admin.integrations.create({ name: 'made', slug: 'made', ai_provider_id: 'openai', key: SECRET });
    const got = await admin.integrations.retrieve({ slug });
    assert.equal(got.name, 'made');
    assert.ok(!JSON.stringify(got).includes(SECRET));
    await admin.integrations.update({ slug, name: 'renamed' });
    assert.deepEqual((await admin.integrations.list({})).data.map((i) => [i.id, i.name]), [[id, 'renamed']]);

    await admin.integrations.models.update({ slug, models: [{ slug: 'gpt-4o', enabled: true }, { slug: 'own', enabled: true, is_custom: true }] });
    assert.deepEqual((await admin.integrations.models.list({ slug })).models.filter((m) => m.slug === 'own').map((m) => m.enabled), [true]);
    await admin.integrations.models.delete({ slug, slugs: 'own' });

    const [workspace] = (await admin.admin.workspaces.list({})).data;
    await admin.integrations.workspaces.update({ slug, workspaces: [{ id: workspace.id, enabled: true }] });
    assert.ok((await admin.integrations.workspaces.list({ slug })).workspaces.some((w) => w.id === workspace.id && w.enabled));

    const provider = await admin.providers.create({ name: 'of it', slug: 'of-it', integration_id: slug });
    assert.equal((await admin.providers.retrieve({ slug: 'of-it' })).name, 'of it');
    await admin.providers.update({ slug: 'of-it', name: 'renamed' });
    assert.ok((await admin.providers.list({})).data.some((p) => p.slug === provider.slug && p.name === 'renamed'));
    await admin.providers.delete({ slug: 'of-it' });
    await gone(admin.providers.retrieve({ slug: 'of-it' }));
  });

  test('prompts, their versions, partials, labels and collections', async () => {
    const collection = await admin.collections.create({ name: 'made' });
    await admin.collections.update(collection.id, { name: 'renamed' });
    assert.equal((await admin.collections.retrieve(collection.id)).name, 'renamed');
    assert.ok(ids(await admin.collections.list({})).includes(collection.id));
    const label = await admin.labels.create({ name: 'made' });
    await admin.labels.update(label.id, { name: 'renamed' });
    assert.equal((await admin.labels.retrieve(label.id)).name, 'renamed');

    const partial = await admin.prompts.partials.create({ name: 'made', string: 'Be kind to {{name}}.' });
    await admin.prompts.partials.update(partial.slug, { string: 'Be very kind to {{name}}.' });
    await admin.prompts.partials.publish(partial.slug, { version: 2 });
    assert.equal((await admin.prompts.partials.retrieve(partial.slug)).string, 'Be very kind to {{name}}.');
    assert.equal((await admin.prompts.partials.versions.list(partial.slug)).length ?? 2, 2);

    const string = JSON.stringify([{ role: 'system', content: `{{>${partial.slug}}}` }, { role: 'user', content: 'Hello {{name}}' }]);
    const prompt = await admin.prompts.create({ name: 'made', collection_id: collection.id, string, virtual_key: '@echo', parameters: { model: 'echo', temperature: 0.5 } });
    await admin.prompts.update(prompt.slug, { string: string.replace('Hello', 'Welcome'), parameters: { model: 'echo', temperature: 0.25 }, virtual_key: '@echo' });
    await admin.prompts.publish(prompt.slug, { version: 2 });
    const versions = await admin.prompts.versions.list(prompt.slug);
    assert.equal((versions.data ?? versions).length, 2);
    await admin.prompts.versions.update(prompt.slug, (versions.data ?? versions)[0].id, { label_id: label.id });
    assert.equal((await admin.prompts.retrieve(prompt.slug)).name, 'made');
    assert.deepEqual(ids(await admin.prompts.list({ collection_id: collection.id })), [prompt.id]);

    const variables = { name: 'Ada "the first"' };
    const rendered = await admin.prompts.render({ promptID: prompt.slug, variables });
    assert.equal(rendered.success, true);
    assert.deepEqual(rendered.data.messages, [
      { role: 'system', content: 'Be very kind to Ada "the first".' }, { role: 'user', content: 'Welcome Ada "the first"' },
    ]);
    assert.equal(rendered.data.temperature, 0.25);

    const service = await gateway.serviceKey();
    const caller = new Portkey({ baseURL: gateway.url, apiKey: service.key });
    const whole = await caller.prompts.completions.create({ promptID: prompt.slug, variables });
    assert.ok(whole.choices[0].message.content.includes('Welcome Ada "the first"'), JSON.stringify(whole));
    let text = '';
    for await (const part of await caller.prompts.completions.create({ promptID: prompt.slug, variables, stream: true })) {
      text += part.choices?.[0]?.delta?.content ?? '';
    }
    assert.equal(text, whole.choices[0].message.content);

    await admin.prompts.delete(prompt.slug);
    await gone(admin.prompts.retrieve(prompt.slug));
    await admin.prompts.partials.delete(partial.slug);
    await admin.labels.delete(label.id);
    await admin.collections.delete(collection.id);
    await gone(admin.collections.retrieve(collection.id));
  });

  test('guardrails', async () => {
    const { id, slug } = await admin.guardrails.create({ name: 'made', checks: [{ id: 'default.wordCount', parameters: { maxWords: 3 } }], actions: { deny: true } });
    assert.equal((await admin.guardrails.retrieve({ guardrail_id: slug })).name, 'made');
    await admin.guardrails.update({ guardrail_id: slug, name: 'renamed' });
    assert.deepEqual((await admin.guardrails.list({})).data.map((g) => [g.id, g.name]), [[id, 'renamed']]);
    await admin.guardrails.delete({ guardrail_id: slug });
    await gone(admin.guardrails.retrieve({ guardrail_id: slug }));
  });

  test('workspaces, users and invites', async () => {
    const workspace = await admin.admin.workspaces.create({ name: 'made', description: 'd' });
    assert.equal((await admin.admin.workspaces.retrieve({ workspaceId: workspace.id })).name, 'made');
    await admin.admin.workspaces.update({ workspaceId: workspace.id, name: 'renamed' });
    assert.ok((await admin.admin.workspaces.list({})).data.some((w) => w.id === workspace.id && w.name === 'renamed'));

    const invite = await admin.admin.users.invites.create({ email: 'ada@example.com', role: 'member', workspaces: [{ id: workspace.id, role: 'member' }] });
    assert.equal((await admin.admin.users.invites.retrieve({ inviteId: invite.id })).email, 'ada@example.com');
    assert.deepEqual(ids(await admin.admin.users.invites.list({})), [invite.id]);
    await admin.admin.users.invites.resend({ inviteId: invite.id });
    const other = await admin.admin.users.invites.create({ email: 'eve@example.com', role: 'member', workspaces: [] });
    await admin.admin.users.invites.delete({ inviteId: other.id });

    const again = await admin.admin.users.invites.create({ email: 'bob@example.com', role: 'member', workspaces: [{ id: workspace.id, role: 'member' }] });
    const [token] = /invite-[A-Za-z0-9]+/.exec(again.invite_link);
    const { id: userId } = await gateway.mustCall('POST', '/admin/users/invites/accept', { token, first_name: 'Bob' });
    assert.equal((await admin.admin.users.retrieve({ userId })).email, 'bob@example.com');
    assert.ok(ids(await admin.admin.users.list({})).includes(userId));
    await admin.admin.workspaces.users.update({ workspaceId: workspace.id, userId, role: 'manager' });
    assert.equal((await admin.admin.workspaces.users.retrieve({ workspaceId: workspace.id, userId })).role, 'manager');
    assert.ok(ids(await admin.admin.workspaces.users.list({ workspaceId: workspace.id })).includes(userId));
    await admin.admin.workspaces.users.delete({ workspaceId: workspace.id, userId });
    await admin.admin.workspaces.users.create({ workspaceId: workspace.id, users: [{ id: userId, role: 'member' }] });
    await admin.admin.users.update({ userId, role: 'admin' });
    assert.equal((await admin.admin.users.retrieve({ userId })).role, 'admin');
    await admin.admin.users.delete({ userId });
    await gone(admin.admin.users.retrieve({ userId }));
    await admin.admin.workspaces.delete({ workspaceId: workspace.id, name: 'renamed', force_delete: true });
    await gone(admin.admin.workspaces.retrieve({ workspaceId: workspace.id }));
  });
});
