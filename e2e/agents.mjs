// What a model says to coding agents, which bring a system prompt and tools of their own: it
// has them read the file that the user names and do one thing more, and then says that it
// is done. It is stateless, as conversation.mjs is.
import { demand } from './wire/shape.mjs';

export const DONE = 'The file says "forty-two" ☀, and that is done.';
/** What the file says. */
export const CONTENT = 'forty-two';
/** What the patch of Codex adds as the file added.txt. */
export const ADDED = 'by a "patch"';

const PATCH = `*** Begin Patch\n*** Add File: added.txt\n+${ADDED}\n*** End Patch\n`;

const isPicture = (file) => file.endsWith('.png');
/** Stands for a result that is the picture, in it or, where results are texts, after them. */
const picture = Symbol('picture');

// By a tool that only this agent has: the calls, all at once, and what their results hold.
const AGENTS = {
  Bash: (file) => (isPicture(file) ? [['Read', { file_path: file }, picture]] : [
    ['Read', { file_path: file }, CONTENT],
    ['Bash', { command: 'echo from "the shell"', description: 'Says "hello"' }, 'from the shell'],
  ]),
  exec_command: (file, has) => (isPicture(file) ? [['view_image', { path: file }, picture]] : [
    ['exec_command', { cmd: `cat '${file}'` }, CONTENT],
    ...(has('apply_patch') ? [['apply_patch', { input: PATCH }, 'added.txt']] : []),
  ]),
};

/** What the user says, so that the file is read. */
export const task = (file) => `Read the file <${file}> and say what it says.`;

/** What the model says next in a conversation of an agent, or undefined if it is of none. */
export function scene({ system, tools, turns }) {
  const has = (name) => tools.some((t) => t.name === name);
  const agent = Object.keys(AGENTS).find(has);
  if (!agent) return undefined;
  demand(system?.length > 1000, 'system', 'not the prompt of an agent');
  for (const { name, schema } of tools) demand(schema === undefined || schema.type === 'object', name, `parameters ${JSON.stringify(schema)}`);
  const [, file] = turns.filter((t) => t.user).map((t) => /Read the file <([^>]+)>/.exec(t.user)).find(Boolean) ?? [];
  demand(file, 'turns', 'no task');
  const steps = AGENTS[agent](file, has);
  const at = turns.findLastIndex((t) => t.results);
  if (at < 0) return { thought: 'They want a "file".', text: 'I will read it.', calls: steps.map(([name, args]) => ({ name, args })) };
  const { calls } = turns[at - 1];
  const { results } = turns[at];
  const images = [...results, ...turns.slice(at + 1)].flatMap((t) => t.images ?? []);
  demand(calls.length === steps.length && results.length === steps.length, 'turns', `${results.length} results of ${calls.length} calls`);
  steps.forEach(([name, args, result], i) => {
    demand(calls[i].name === name && JSON.stringify(calls[i].args) === JSON.stringify(args), 'calls', `${JSON.stringify(calls[i])} instead of ${name}`);
    const got = calls[i].id === undefined ? results[i] : results.find((r) => r.id === calls[i].id);
    if (result === picture) demand(got && images.length === 1 && /^image\/(png|jpeg) .{60,}$/.test(images[0]), 'results', `no picture in ${JSON.stringify(turns.slice(at))}`);
    else demand(got?.text.includes(result), 'results', `${JSON.stringify(got)} lacks ${result}`);
  });
  return { thought: 'It is "read".', text: DONE, calls: [] };
}
