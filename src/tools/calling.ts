/** How tools are called, and what becomes of a call in our loop of which nobody has heard. */
import { setTimeout as sleep } from "node:timers/promises";
import { NotDone } from "../core/effects/effect.js";
import { digest } from "../core/values/digest.js";
import { HoldfastError } from "../core/values/errors.js";
import { checkName } from "../core/values/ids.js";
import { invalidValue, type Json, type JsonObject, put } from "../core/values/json.js";
import { isObject } from "../core/values/shapes.js";
import type { CheckRequest, Settled } from "../engine/calls/call-options.js";
import { KEY_VALID_MS } from "../engine/journal/receipts.js";
import type { Hold, Spec } from "./definition.js";
import type { Shape } from "./schema.js";

/**
 * Make a call, if its input fits. Every loop calls tools here, and some check nothing: a name
 * that is none must not be passed over, `dryrun` for instance. The call is made with the copy that
 * was checked.
 */
export async function callTool(
  hold: Hold,
  spec: Spec,
  given: unknown,
  { agent, signal, key, self }: Calling,
): Promise<JsonObject> {
  const { idempotencyKey, ...input } = await fitting(
    key === undefined ? spec.keyedInput : spec.input,
    given,
  );
  // Before anything is done; what has begun is brought to its end.
  signal?.throwIfAborted();
  const name = idempotencyKey ?? key;
  return spec.run(hold, input, {
    key: name === undefined ? undefined : ownKey(agent, name),
    agent,
    signal,
    self,
  });
}

async function fitting(
  shape: Shape<unknown>,
  given: unknown,
): Promise<{ readonly [name: string]: Json } & { readonly idempotencyKey?: string }> {
  const parsed = await shape["~standard"].validate(given);
  if (parsed.issues === undefined) {
    try {
      return withUndefined(parsed.value as JsonObject, given) as JsonObject;
    } catch (cause) {
      // A proxy of the caller's that let itself be read once.
      throw invalidValue("input", "reading it threw an error", cause);
    }
  }
  throw new HoldfastError("INVALID_VALUE", parsed.issues.map(({ message }) => message).join("; "), {
    path: "input",
  });
}

/**
 * The copy, with fields that were there and undefined: a copy as JSON leaves those out. An id, or a
 * `from`, of that kind was forgotten, and must not be taken for one that was left out. Runs no
 * getter.
 */
function withUndefined(copy: Json, given: unknown): Json {
  if (!isObject(copy) || !isObject(given)) return copy;
  const all: Record<string, Json> = { ...(copy as JsonObject) };
  for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(given))) {
    if (value !== undefined && Object.hasOwn(copy, name))
      put(all, name, withUndefined(copy[name] as Json, value));
    else if (value === undefined && !Object.hasOwn(copy, name))
      put(all, name, undefined as unknown as Json);
  }
  return all;
}

interface Calling {
  readonly agent: string | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly key?: string;
  readonly self?: string;
}

/** What one agent calls its calls is nothing to another. */
function ownKey(agent: string | undefined, given: string): string {
  const key = checkName(given, "idempotencyKey");
  return agent === undefined ? key : digest(`${agent}\n${key}`);
}

/** Whether it was done, and what it answers then: under its key, the same. */
export async function checked(
  hold: Hold,
  one: Spec,
  { key, input, startedAt }: CheckRequest<any>,
  agent: string | undefined,
): Promise<Settled<JsonObject>> {
  return patiently(undefined, async () => {
    if (!(await hold.isDone(ownKey(agent, key)))) {
      // What was done so long ago may be forgotten.
      return Date.now() - Date.parse(startedAt) > KEY_VALID_MS ? undefined : { retry: true };
    }
    try {
      return { output: await callTool(hold, one, input, { agent, key }) };
    } catch (error) {
      if (!isRefusal(error) || error.retryable) throw error;
      return {
        error: `It was done, and what it has made is not as it was: ${error.code}: ${error.message}`,
      };
    }
  });
}

/** What is refused was not done, and the model is told; our loop would otherwise not know. */
export async function surely<R>(signal: AbortSignal, call: () => Promise<R>): Promise<R> {
  try {
    return await patiently(signal, call);
  } catch (error) {
    if (!isRefusal(error)) throw error;
    throw new NotDone(`${error.code}: ${error.message}`, { cause: error });
  }
}

/** After these nobody knows what became of it. */
const OPEN: ReadonlySet<string> = new Set(["UNREACHABLE", "IO", "DISK_FULL", "CLOSED"]);
const isRefusal = (error: unknown): error is HoldfastError =>
  error instanceof HoldfastError && !OPEN.has(error.code);

const PATIENCE_MS = 10_000;
const PASSING: ReadonlySet<string> = new Set(["UNREACHABLE", "BUSY", "DISK_FULL"]);

/**
 * While the store is away or busy it is asked again, for a while: under its key a call is made
 * once.
 */
async function patiently<R>(signal: AbortSignal | undefined, call: () => Promise<R>): Promise<R> {
  const deadline = performance.now() + PATIENCE_MS;
  for (let pause = 50; ; pause = Math.min(2 * pause, 1_000)) {
    try {
      return await call();
    } catch (error) {
      const isPassing = error instanceof HoldfastError && PASSING.has(error.code);
      if (!isPassing || performance.now() > deadline || signal?.aborted) throw error;
    }
    await sleep(pause, undefined, signal && { signal }).catch(() => {});
  }
}
