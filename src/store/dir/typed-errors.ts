/**
 * The door of the store: all calls of its interface go through here, so a failure of any file
 * leaves it as a HoldfastError.
 *
 * Only a TypeError passes as it is: a caller inside this package has made a mistake.
 */
import { intercepted } from "../capabilities.js";
import { translate } from "./files/failures.js";

export const withTypedErrors = <T extends object>(store: T): T =>
  intercepted(store, (_, call) => {
    try {
      const answer = call();
      return answer instanceof Promise ? answer.catch(rethrow) : answer;
    } catch (error) {
      return rethrow(error);
    }
  });

function rethrow(error: unknown): never {
  throw error instanceof TypeError ? error : translate(error);
}
