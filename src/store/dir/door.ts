/**
 * The door of the store: all calls of its interface go through here, so a failure of any file
 * leaves it as a HoldfastError.
 *
 * Only a TypeError passes as it is: a caller inside this package has made a mistake.
 */
import { translate } from "./files/failures.js";

type Call = (...args: unknown[]) => unknown;

export function withTypedErrors<T extends object>(store: T): T {
  const calls = new Map<PropertyKey, Call>();
  const get = (_: T, name: PropertyKey): unknown => {
    const known = calls.get(name);
    if (known !== undefined) return known;
    const value = Reflect.get(store, name, store) as unknown;
    if (typeof value !== "function") return value;
    const call: Call = (...args) => {
      try {
        const answer: unknown = value.apply(store, args);
        return answer instanceof Promise ? answer.catch(rethrow) : answer;
      } catch (error) {
        return rethrow(error);
      }
    };
    calls.set(name, call);
    return call;
  };
  return new Proxy(store, { get });
}

function rethrow(error: unknown): never {
  throw error instanceof TypeError ? error : translate(error);
}
