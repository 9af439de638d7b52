// What a model says to a coding agent.

/** What the model says next in a conversation of an agent, or undefined. */
export const scene = () => undefined;
