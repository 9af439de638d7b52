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

// By a tool that only this agent has: the calls, all at once, and what their results hold.
const AGENTS = {
  Bash: (file) => [
    ['Read', { file_path: file }, CONTENT],
    ['Bash', { command: 'echo from "the shell"', description: 'Says "hello"' }, 'from the shell'],
  ],
  exec_command: (file, has) => [
    ['exec_command', { cmd: `cat '${file}'` }, CONTENT],
    ...(has('apply_patch') ? [['apply_patch', { input: PATCH }, 'added.txt']] : []),
  ],
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
  const last = turns.at(-1);
  if (last.user) return { thought: 'They want a "file".', text: 'I will read it.', calls: steps.map(([name, args]) => ({ name, args })) };
  const { calls } = turns.at(-2);
  demand(calls.length === steps.length && last.results.length === steps.length, 'turns', `${last.results.length} results of ${calls.length} calls`);
  steps.forEach(([name, args, result], i) => {
    demand(calls[i].name === name && JSON.stringify(calls[i].args) === JSON.stringify(args), 'calls', `${JSON.stringify(calls[i])} instead of ${name}`);
    const got = calls[i].id === undefined ? last.results[i] : last.results.find((r) => r.id === calls[i].id);
    demand(got?.text.includes(result), 'results', `${JSON.stringify(got)} lacks ${result}`);
  });
  return { thought: 'It is "read".', text: DONE, calls: [] };
}
