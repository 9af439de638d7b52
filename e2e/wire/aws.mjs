// What of AWS a batch on Amazon Bedrock needs: a bucket of S3's, and model invocation jobs
// of type Converse. A job runs when it is asked for the second time.
import { randomBytes } from 'node:crypto';
import { demand, equal, filled, is, like, list, object, text } from './shape.mjs';

export const BUCKET = 'batches-of-the-team';
export const ROLE = 'arn:aws:iam::123456789012:role/service-role/batches';

const objects = new Map(); // by key: { body, at }
const made = []; // jobs, the latest first

const xml = (status, body) => ({ status, headers: { 'content-type': 'application/xml' }, body: `<?xml version="1.0" encoding="UTF-8"?>\n${body}` });
const missing = xml(404, '<Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message></Error>');

/** Answers a request to the bucket. */
export function s3(method, url, body = '', headers) {
  const { pathname, searchParams } = new URL(url, 'http://s3');
  const key = decodeURIComponent(pathname.slice(BUCKET.length + 2));
  demand(pathname.startsWith(`/${BUCKET}`), 'path', 'another bucket');
  if (key === '') {
    equal([method, searchParams.get('list-type')], ['GET', '2'], 'list');
    const most = Number(searchParams.get('max-keys'));
    const keys = [...objects.keys()].sort().filter((k) => k.startsWith(searchParams.get('prefix')) && k > (searchParams.get('start-after') ?? ''));
    const rows = keys.slice(0, most).map((k) => `<Contents><Key>${k}</Key><LastModified>${objects.get(k).at.toISOString()}</LastModified><Size>${objects.get(k).body.length}</Size></Contents>`);
    return xml(200, `<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><IsTruncated>${keys.length > most}</IsTruncated>${rows.join('')}</ListBucketResult>`);
  }
  demand(searchParams.size === 0, 'query', 'an upload in parts of a small file');
  if (method === 'PUT') {
    equal(Number(headers['content-length']), Buffer.byteLength(body), 'content-length');
    objects.set(key, { body, at: new Date() });
    return { headers: { etag: '"5d41402abc4b2a76b9719d911017c592"' }, body: '' };
  }
  if (method === 'DELETE') {
    objects.delete(key);
    return { status: 204, body: '' };
  }
  demand(['GET', 'HEAD'].includes(method), 'method', `no ${method}`);
  const found = objects.get(key);
  if (!found) return missing;
  return {
    headers: { 'content-type': 'application/octet-stream', 'content-length': Buffer.byteLength(found.body), 'last-modified': found.at.toUTCString() },
    body: found.body,
  };
}

const place = like(new RegExp(`^s3://${BUCKET}/[^/].*$`));
const asked = object({
  jobName: like(/^[a-zA-Z0-9]{1,63}(-*[a-zA-Z0-9+\-.]){0,63}$/), modelId: filled, modelInvocationType: is('Converse'), roleArn: is(ROLE),
  clientRequestToken: like(/^[a-zA-Z0-9]{1,256}$/), timeoutDurationInHours: is(24),
  inputDataConfig: object({ s3InputDataConfig: object({ s3InputFormat: is('JSONL'), s3Uri: place }) }),
  outputDataConfig: object({ s3OutputDataConfig: object({ s3Uri: place }) }),
}, { tags: list(object({ key: filled, value: text })) });

/** Answers a request about jobs; check checks the input of a model. */
export function jobs(method, url, body, check) {
  const { pathname, searchParams } = new URL(url, 'http://bedrock');
  if (pathname === '/model-invocation-job') {
    equal(method, 'POST', 'method');
    asked(body, 'body');
    const key = body.inputDataConfig.s3InputDataConfig.s3Uri.slice(`s3://${BUCKET}/`.length);
    demand(objects.has(key) && key.endsWith('.jsonl'), 'inputDataConfig', `no ${key}`);
    const id = randomBytes(6).toString('hex');
    made.unshift({
      ...body, jobArn: `arn:aws:bedrock:eu-central-1:123456789012:model-invocation-job/${id}`, status: 'Submitted',
      submitTime: new Date().toISOString(), jobExpirationTime: new Date(Date.now() + 24 * 3600e3).toISOString(),
    });
    return { body: { jobArn: made[0].jobArn } };
  }
  if (pathname === '/model-invocation-jobs') {
    equal([method, searchParams.get('sortBy'), searchParams.get('sortOrder')], ['GET', 'CreationTime', 'Descending'], 'list');
    const before = searchParams.get('submitTimeBefore');
    const from = Number(searchParams.get('nextToken') ?? 0);
    const to = from + Number(searchParams.get('maxResults'));
    const all = made.filter((job) => !before || new Date(job.submitTime) < new Date(before));
    return { body: { invocationJobSummaries: all.slice(from, to), ...(to < all.length && { nextToken: String(to) }) } };
  }
  const [, id, verb] = /^\/model-invocation-job\/([a-z0-9]{12})(\/stop)?$/.exec(pathname) ?? [];
  const job = made.find((j) => j.jobArn.endsWith(`/${id}`));
  if (!job) return { status: 404, headers: { 'x-amzn-errortype': 'ResourceNotFoundException' }, body: { message: 'no such job' } };
  if (verb) {
    equal(method, 'POST', 'method');
    job.status = 'Stopping';
    return { body: {} };
  }
  equal(method, 'GET', 'method');
  const answer = { ...job };
  if (job.status === 'InProgress') run(job, id, check);
  if (job.status === 'Submitted') job.status = 'InProgress';
  return { body: answer };
}

function run(job, id, check) {
  const input = job.inputDataConfig.s3InputDataConfig.s3Uri.slice(`s3://${BUCKET}/`.length);
  const output = job.outputDataConfig.s3OutputDataConfig.s3Uri.slice(`s3://${BUCKET}/`.length);
  const records = objects.get(input).body.trimEnd().split('\n').map((line) => {
    const { recordId, modelInput, ...more } = JSON.parse(line);
    like(/^[a-zA-Z0-9]+$/)(recordId, 'recordId');
    equal(more, {}, 'record');
    check(modelInput);
    const said = modelInput.messages.at(-1).content[0].text;
    return JSON.stringify(said === 'fail'
      ? { modelInput, error: { errorCode: 400, errorMessage: 'bad request' }, recordId }
      : { modelInput, modelOutput: { output: { message: { role: 'assistant', content: [{ text: `${said}!` }] } }, stopReason: 'end_turn', usage: { inputTokens: 3, outputTokens: 2, totalTokens: 5 } }, recordId });
  });
  objects.set(`${output}${id}/${input.split('/').at(-1)}.out`, { body: records.reverse().join('\n'), at: new Date() });
  objects.set(`${output}${id}/manifest.json.out`, { body: '{}', at: new Date() });
  Object.assign(job, { status: 'Completed', endTime: new Date().toISOString(), totalRecordCount: records.length, successRecordCount: records.length - 1, errorRecordCount: 1 });
}
