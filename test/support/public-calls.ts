/**
 * Every public method of an open store, with arguments that it accepts. Tests find the methods by
 * reflection and compare them with this table, so a new method cannot be forgotten.
 */
import {
  type BoundAgent,
  type Checkpoint,
  type Holdfast,
  open,
  type RunStream,
  type Session,
  type Turn,
  type Worker,
} from "../../src/index.js";
import { scriptedModel } from "../../src/testing/index.js";

export interface Opened {
  readonly hold: Holdfast;
  readonly held: Session;
  readonly agent: BoundAgent;
  readonly turn: Turn;
  readonly stream: RunStream;
  readonly worker: Worker;
  readonly checkpoint: Checkpoint;
  readonly snapshot: string;
  /** The id of a call that waits for approval. */
  readonly effect: string;
}

/** A model that asks for the tool `act` once, and then says "done". */
const asksOnce = () =>
  scriptedModel([
    { content: [{ type: "tool-call", callId: "c1", name: "act", input: {} }] },
    "done",
    "done",
    "done",
    "done",
  ]);

const act = { input: { type: "object" }, mode: "once", approval: true, run: () => 1 } as const;

/** Opens a store and makes one of each object that has public methods. */
export const openWorld = async (address: string): Promise<Opened> =>
  openWorldOn(await open(address));

export async function openWorldOn(hold: Holdfast): Promise<Opened> {
  const agent = hold.agent({ name: "agent", model: asksOnce(), tools: { act } });
  const stream = agent.stream("asked", "go");
  const { status } = await stream.result();
  if (status !== "waiting") throw new Error(`The run is ${status}, and must wait for approval.`);
  const [pending] = (await hold.effects.list({ status: "waiting" })).items;
  const turn = await agent.submit("submitted", "later");
  const snapshot = await hold.agents.snapshot("agent");
  const free = await hold.session("free");
  free.append({ role: "user", content: "kelp" });
  const checkpoint = await free.checkpoint();
  await free.close();
  const held = await hold.session("held");
  held.set("list", [1]);
  await held.checkpoint();
  const worker = hold.worker({ agents: [agent], onSigterm: false });
  return {
    hold,
    held,
    agent,
    turn,
    stream,
    worker,
    checkpoint,
    snapshot: snapshot.id,
    effect: pending?.effectId ?? "",
  };
}

/** An argument that is an object of options, complete. */
export class Options {
  readonly fields: Readonly<Record<string, unknown>>;

  constructor(fields: Readonly<Record<string, unknown>>) {
    this.fields = fields;
  }
}

const o = (fields: Readonly<Record<string, unknown>>): Options => new Options(fields);

type Arguments = (world: Opened) => readonly unknown[];

export interface Surface {
  readonly name: string;
  readonly of: (world: Opened) => object;
  readonly calls: Readonly<Record<string, Arguments>>;
  /**
   * Methods that a closed store still answers, because they only read memory or end something that
   * has ended.
   */
  readonly still?: readonly string[];
}

const signal = new AbortController().signal;
const DISPOSE = String(Symbol.asyncDispose);
const ITERATE = String(Symbol.asyncIterator);
const message = { role: "user", content: "x" };
const none = () => [];

export const surfaces: readonly Surface[] = [
  {
    name: "hold",
    of: ({ hold }) => hold,
    still: ["close", DISPOSE],
    calls: {
      agent: () => [
        o({
          name: "other",
          model: scriptedModel(["x"]),
          system: "s",
          limits: { steps: 3 },
          tools: { act },
          version: "1",
        }),
      ],
      bind: ({ agent }) => [agent],
      session: () => [
        "new",
        o({ agent: "a", title: "t", tags: ["t"], metadata: {}, waitMs: 0, leaseMs: 1_000 }),
      ],
      worker: ({ agent }) => [
        o({
          agents: [agent],
          concurrency: 1,
          leaseMs: 1_000,
          pollMs: 10,
          attempts: 1,
          onSigterm: false,
        }),
      ],
      tools: () => [o({ only: ["agent_save"], readOnly: false, agent: "agent", approval: true })],
      blob: () => ["A".repeat(43)],
      export: () => [
        o({ session: "free" }),
        o({ signal, onProgress: () => {}, onLeftOut: () => {} }),
      ],
      import: () => [[], o({ dryRun: true, moved: true, signal, onProgress: () => {} })],
      backup: () => ["/dev/null/backup.db", o({ onProgress: () => {}, signal, force: false })],
      markRestored: none,
      info: none,
      stats: none,
      verify: () => [o({ sessionId: "free", onProgress: () => {} })],
      gc: () => [o({ dryRun: true, onProgress: () => {}, signal })],
      close: none,
      [DISPOSE]: none,
    },
  },
  {
    name: "hold.sessions",
    of: ({ hold }) => hold.sessions,
    calls: {
      search: () => [
        "kelp",
        o({
          agent: "a",
          tag: "t",
          sessionId: "free",
          role: "user",
          since: "2020-01-01T00:00:00Z",
          limit: 5,
        }),
      ],
      index: () => [o({ rebuild: false, onProgress: () => {}, signal })],
      get: () => ["free"],
      has: () => ["free"],
      ids: () => ["fr", o({ limit: 5 })],
      forks: () => ["free", o({ limit: 5 })],
      state: ({ checkpoint }) => ["free", o({ at: checkpoint.id })],
      list: () => [
        o({ agent: "a", status: "waiting", tag: "t", archived: false, limit: 5, cursor: "s9" }),
      ],
      update: () => [
        "free",
        o({ title: "t", tags: ["t"], archived: false, metadata: {} }),
        o({ key: "k4", create: true, about: "x" }),
      ],
      transcript: ({ checkpoint }) => ["free", o({ format: "openai", at: checkpoint.id })],
      append: () => ["free", [message], o({ key: "k5" })],
      replace: () => [
        "free",
        [message],
        o({ version: "v", from: "m", count: 1, key: "k21", waitMs: 0, signal }),
      ],
      delete: () => ["free", o({ key: "k6" })],
      redact: () => ["free", "kelp", o({ dryRun: true, signal, onProgress: () => {} })],
      fork: ({ checkpoint }) => [checkpoint.id, o({ id: "fork", effects: "ask", key: "k1" })],
      rewind: ({ checkpoint }) => [
        "free",
        checkpoint.id,
        o({ effects: "ask", key: "k2", waitMs: 0, signal }),
      ],
      switchBranch: ({ checkpoint }) => ["free", checkpoint.id, o({ waitMs: 0, signal })],
      events: ({ checkpoint }) => ["free", o({ after: checkpoint.id, signal, live: false })],
      cancel: () => ["submitted", "reason"],
      signal: () => ["free", "name", 1, o({ key: "k3" })],
    },
  },
  {
    name: "hold.checkpoints",
    of: ({ hold }) => hold.checkpoints,
    calls: {
      get: ({ checkpoint }) => [checkpoint.id],
      has: ({ checkpoint }) => [checkpoint.id],
      find: ({ checkpoint }) => [checkpoint.id],
      latest: () => ["free"],
      create: () => [
        "free",
        o({
          label: "l",
          description: "d",
          kind: "manual",
          step: 3,
          metadata: {},
          key: "k7",
          waitMs: 0,
          signal,
        }),
      ],
      list: ({ checkpoint }) => ["free", o({ limit: 5, cursor: checkpoint.id, branches: "all" })],
      state: ({ checkpoint }) => [checkpoint.id],
      diff: ({ checkpoint }) => [checkpoint.id, checkpoint.id],
      prune: () => ["free", o({ keep: 5, dryRun: true, branches: "all", signal })],
      delete: ({ checkpoint }) => [checkpoint.id, o({ key: "k8" })],
    },
  },
  {
    name: "hold.agents",
    of: ({ hold }) => hold.agents,
    still: ["stop"],
    calls: {
      save: () => [
        o({ id: "kept", name: "n", system: "s", state: {}, config: {}, capabilities: ["c"] }),
        o({ key: "k9" }),
      ],
      set: () => ["agent", "key", 1, o({ key: "k19" })],
      unset: () => ["agent", "key", o({ key: "k20" })],
      get: () => ["agent"],
      list: () => [o({ limit: 5, cursor: "d9" })],
      delete: () => ["agent", o({ key: "k10" })],
      snapshot: () => [
        "agent",
        o({ name: "n", description: "d", kind: "manual", metadata: {}, key: "k11" }),
      ],
      snapshots: () => ["agent", o({ kind: "manual", limit: 5, cursor: "d9" })],
      getSnapshot: ({ snapshot }) => [snapshot],
      restore: ({ snapshot }) => [
        snapshot,
        o({ takeOver: false, dryRun: true, signal, onProgress: () => {}, key: "k12" }),
      ],
      pruneSnapshots: () => ["agent", o({ keep: 5, dryRun: true, signal })],
      deleteSnapshot: ({ snapshot }) => [snapshot, o({ key: "k13" })],
      autoSnapshot: () => [
        "agent",
        o({ everyMs: 3_600_000, keep: 1, onSnapshot: () => {}, onError: () => {} }),
      ],
      stop: none,
    },
  },
  {
    name: "hold.effects",
    of: ({ hold }) => hold.effects,
    calls: {
      list: () => [o({ status: "waiting", agent: "agent", limit: 5, cursor: "s9" })],
      get: ({ effect }) => [effect],
      approve: ({ effect }) => [effect, o({ by: "me", input: {}, note: "n" })],
      deny: ({ effect }) => [effect, o({ by: "me", reason: "r" })],
      settle: ({ effect }) => [effect, o({ output: 1, by: "me" })],
    },
  },
  {
    name: "hold.retention",
    of: ({ hold }) => hold.retention,
    still: ["stop"],
    calls: {
      set: () => [o({ keep: 5 }), o({ agent: "agent" })],
      get: () => [o({ agent: "agent" })],
      clear: () => [o({ agent: "agent" })],
      apply: () => [
        o({ agent: "agent", dryRun: true, branches: "all", onProgress: () => {}, signal }),
      ],
      sweep: () => [o({ everyMs: 3_600_000, onSwept: () => {}, onError: () => {} })],
      stop: none,
    },
  },
  {
    name: "session",
    of: ({ held }) => held,
    still: ["close", DISPOSE],
    calls: {
      append: () => [message],
      set: () => ["key", 1],
      unset: () => ["key"],
      splice: () => ["list", 0, 0, 1],
      save: () => [o({ messages: [message], state: {} })],
      effect: () => [
        "name",
        {},
        o({ mode: "keyed", key: "k14", timeoutMs: 10, retry: { attempts: 1 }, keyValidMs: 10 }),
        () => 1,
      ],
      model: () => [async () => 1, o({ key: "k15" })],
      unfinished: none,
      shouldCheckpoint: () => ["after-tool"],
      checkpoint: () => [
        o({
          label: "l",
          description: "d",
          kind: "manual",
          step: 3,
          tokenCount: 1,
          tasksCompleted: 1,
          metadata: {},
        }),
      ],
      complete: () => [1, o({ label: "l" })],
      fail: () => ["reason", o({ label: "l" })],
      halt: () => ["reason", o({ label: "l" })],
      history: () => [o({ before: 5, limit: 5, cursor: "m5" })],
      fork: ({ checkpoint }) => [checkpoint.id, o({ id: "own fork", effects: "ask" })],
      rewind: ({ held }) => [held.head?.id, o({ effects: "ask" })],
      switchBranch: ({ held }) => [held.head?.id],
      close: () => [o({ discard: true })],
      [DISPOSE]: none,
    },
  },
  {
    name: "agent",
    of: ({ agent }) => agent,
    // It only names a turn.
    still: ["turn"],
    calls: {
      run: () => [
        "ran",
        "go",
        o({
          key: "k16",
          signal,
          ifBusy: "reject",
          limits: { steps: 5 },
          tags: ["t"],
          title: "t",
          metadata: {},
        }),
      ],
      stream: () => ["streamed", "go", o({ key: "k17", context: undefined })],
      submit: () => [
        "sent",
        "go",
        o({ key: "k18", tags: ["t"], title: "t", metadata: {}, atMs: 1 }),
      ],
      resume: () => ["submitted", o({ signal, limits: { steps: 5 } })],
      turn: ({ turn }) => [turn.sessionId, turn.turnId],
    },
  },
  {
    name: "turn",
    of: ({ turn }) => turn,
    calls: { result: () => [o({ signal, timeoutMs: 1 })], cancel: () => ["reason"] },
  },
  {
    name: "stream",
    of: ({ stream }) => stream,
    // What the run answered is known.
    still: ["result", ITERATE],
    calls: { result: none, cancel: () => ["reason"], [ITERATE]: none },
  },
  {
    name: "worker",
    of: ({ worker }) => worker,
    still: ["stats", "stop"],
    calls: {
      stats: none,
      start: none,
      stop: () => [o({ graceMs: 0 })],
      drain: () => [o({ maxMs: 1 })],
    },
  },
];

const isMethod = (descriptor: PropertyDescriptor | undefined): boolean =>
  typeof descriptor?.value === "function";

/** The names of an object's methods, as reflection finds them. */
export function methodsOf(object: object): readonly string[] {
  const names = new Set<string>();
  for (
    let at: object | null = object;
    at !== null && at !== Object.prototype;
    at = Object.getPrototypeOf(at) as object | null
  )
    for (const key of Reflect.ownKeys(at))
      if (key !== "constructor" && isMethod(Object.getOwnPropertyDescriptor(at, key)))
        names.add(String(key));
  return [...names].sort();
}

/** Arguments as a caller gives them. */
export const plain = (args: readonly unknown[]): readonly unknown[] =>
  args.map((arg) => (arg instanceof Options ? { ...arg.fields } : arg));

/** Calls a method by its name. Of an answer that is iterated, the first item is asked for. */
export async function call(
  object: object,
  name: string,
  args: readonly unknown[],
): Promise<unknown> {
  const key =
    name === DISPOSE ? Symbol.asyncDispose : name === ITERATE ? Symbol.asyncIterator : name;
  const answer = await Reflect.apply(
    (object as Record<string | symbol, () => unknown>)[key] as () => unknown,
    object,
    args,
  );
  if (typeof answer === "object" && answer !== null && Symbol.asyncIterator in answer)
    await (answer as AsyncIterable<unknown>)[Symbol.asyncIterator]().next();
  return answer;
}
