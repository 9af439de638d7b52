// What a body must look like: checks that a value passes, or that throw a Fault which
// says where it differs. What is not listed in an object is a fault.
import { isDeepStrictEqual } from 'node:util';

export class Fault extends Error {}

const show = (value) => JSON.stringify(value)?.slice(0, 300);

export function demand(ok, at, what) {
  if (!ok) throw new Fault(`${at}: ${what}`);
}

export const any = () => {};
export const text = (v, at) => demand(typeof v === 'string', at, `${show(v)} is not a string`);
export const filled = (v, at) => demand(typeof v === 'string' && v !== '', at, `${show(v)} is not a text`);
export const number = (v, at) => demand(typeof v === 'number', at, `${show(v)} is not a number`);
export const integer = (v, at) => demand(Number.isInteger(v), at, `${show(v)} is not an integer`);
export const boolean = (v, at) => demand(typeof v === 'boolean', at, `${show(v)} is not a boolean`);
export const is = (...values) => (v, at) => demand(values.some((w) => isDeepStrictEqual(v, w)), at, `${show(v)} is none of ${show(values)}`);
export const like = (pattern) => (v, at) => demand(typeof v === 'string' && pattern.test(v), at, `${show(v)} is not like ${pattern}`);

/** A list; least: how many elements it has at least. */
export const list = (of, least = 0) => (v, at) => {
  demand(Array.isArray(v) && v.length >= least, at, `${show(v)} is not a list of ${least} or more`);
  v.forEach((element, i) => of(element, `${at}[${i}]`));
};

const isObject = (v) => typeof v === 'object' && v !== null && !Array.isArray(v);

/** An object with every member that is required, and none but those and the optional ones. */
export const object = (required, optional = {}) => (v, at) => {
  demand(isObject(v), at, `${show(v)} is not an object`);
  for (const name of Object.keys(required)) demand(name in v, at, `${name} is missing`);
  for (const [name, member] of Object.entries(v)) {
    const check = Object.hasOwn(required, name) ? required[name] : Object.hasOwn(optional, name) ? optional[name] : undefined;
    demand(check, `${at}.${name}`, `unexpected member, ${show(member)}`);
    check(member, `${at}.${name}`);
  }
};

/** An object of any members. */
export const open = (v, at) => demand(isObject(v), at, `${show(v)} is not an object`);

/** What one member says decides: checks by its value. */
export const by = (name, checks) => (v, at) => {
  const kind = v?.[name];
  demand(Object.hasOwn(checks, kind), at, `${name} ${show(kind)} is none of ${Object.keys(checks)}`);
  checks[kind](v, at);
};

/** One of several checks passes. */
export const either = (...checks) => (v, at) => {
  const faults = [];
  for (const check of checks) {
    try {
      return check(v, at);
    } catch (fault) {
      faults.push(fault.message);
    }
  }
  throw new Fault(faults.join('; or '));
};

export const nullable = (check) => (v, at) => { if (v !== null) check(v, at); };

export const equal = (got, want, at) => demand(isDeepStrictEqual(got, want), at, `${show(got)}, want ${show(want)}`);
