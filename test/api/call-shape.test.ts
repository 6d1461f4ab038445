/**
 * A call has one shape, wherever it is seen: `{ callId, name, input }`, and with what came of it
 * `outcome` and `output`. One turn has all that can become of a call, and a call by hand stands
 * before it.
 */
import { afterEach, describe, expect, test } from "vitest";
import type { CheckRequest } from "../../src/engine/calls/call-options.js";
import type { Operation, Result } from "../../src/engine/journal/telemetry.js";
import type {
  AgentEvent,
  Holdfast,
  Json,
  ModelReply,
  Pending,
  SessionEvent,
  TelemetryEvent,
  ToolContext,
} from "../../src/index.js";
import { NotDone, open } from "../../src/index.js";
import { run } from "../cli/command.js";
import { stores } from "../support/stores.js";

const calls = {
  look: { callId: "c1", name: "look", input: { q: "kelp" } },
  pay: { callId: "c2", name: "pay", input: { cents: 5 } },
  mail: { callId: "c3", name: "mail", input: { to: "ana" } },
  refund: { callId: "c4", name: "refund", input: { order: 1 } },
  ship: { callId: "c5", name: "ship", input: { order: 2 } },
} as const;
const ends = {
  look: { outcome: "ok", output: { found: 2 } },
  pay: { outcome: "ok", output: { paid: 5 } },
  mail: { outcome: "denied", output: "too much" },
  refund: { outcome: "error", output: "there is no such order" },
  ship: { outcome: "ok", output: { shipped: true } },
} as const;
const byHand = { name: "note", input: { text: "kelp" } } as const;
const noted = { noted: 1 } as const;

type Name = keyof typeof calls;
const names = Object.keys(calls) as readonly Name[];
const waiting: readonly Name[] = ["pay", "mail"];

/** Words by which some of these places said the same before. */
const OTHERS = ["tool", "args", "arguments", "result", "toolName", "toolCallId", "tool_calls"];

function othersIn(value: unknown, path = ""): readonly string[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => [
    ...(OTHERS.includes(key) ? [`${path}.${key}`] : []),
    ...othersIn(inner, `${path}.${key}`),
  ]);
}

/** The fields of a call that a place tells, and nothing else of it. */
const shapeOf = ({ callId, name, input }: Partial<Pending>) => ({
  ...(callId !== undefined && { callId }),
  name,
  input,
});
const byName = <T extends { readonly name?: string }>(all: readonly T[], name: string) =>
  all.filter((one) => one.name === name);

/** What tools and telemetry were given. */
class Heard {
  readonly contexts: (Pick<ToolContext, "callId" | "effectId"> & { name: string; input: Json })[] =
    [];
  readonly checks: Pick<CheckRequest, "input">[] = [];
  readonly approvals: Json[] = [];
  readonly operations: Extract<Operation, { type: "tool" }>[] = [];
  readonly results: Result[] = [];
  readonly telemetry: Extract<TelemetryEvent, { type: "call" }>[] = [];
  readonly events: Extract<AgentEvent, { type: "tool" }>[] = [];

  saw(name: string, input: Json, { callId, effectId }: ToolContext) {
    this.contexts.push({ name, input, callId, effectId });
  }
}

let hold: Holdfast | undefined;
afterEach(() => hold?.close());

async function opened(address: string, heard: Heard): Promise<Holdfast> {
  hold = await open(address, {
    telemetry: {
      around: (operation, go) => {
        if (operation.type === "tool") heard.operations.push(operation);
        return go((result) => heard.results.push(result));
      },
      event: (event) => void (event.type === "call" && heard.telemetry.push(event)),
    },
  });
  return hold;
}

const reply: ModelReply = { content: "I look, pay and write.", toolCalls: Object.values(calls) };

function clerkOf(hold: Holdfast, heard: Heard) {
  const tool = (name: Name, more: object, run: () => unknown = () => ends[name].output) => ({
    ...more,
    run: (input: Json, context: ToolContext) => {
      heard.saw(name, input, context);
      return run();
    },
  });
  const approval = (input: Json) => {
    heard.approvals.push(input);
    return true;
  };
  return hold.agent({
    name: "clerk",
    model: async ({ messages }) =>
      messages.some(({ role }) => role === "assistant") ? { content: "Done." } : reply,
    tools: {
      look: tool("look", { mode: "repeatable" }),
      pay: tool("pay", { mode: "keyed", approval }),
      mail: tool("mail", { mode: "once", approval }),
      refund: tool("refund", { mode: "once" }, () => {
        throw new NotDone(ends.refund.output);
      }),
      ship: {
        ...tool("ship", { mode: "once" }, () => {
          throw new Error("the line went dead");
        }),
        check: (request: CheckRequest) => void heard.checks.push(request),
      },
    } as never,
  });
}

describe.each(stores)("a call, on $name", ({ name: kind, address }) => {
  test("is { callId, name, input } in every place, and its end { outcome, output }", async () => {
    const at = address();
    const heard = new Heard();
    const store = await opened(at, heard);
    const clerk = clerkOf(store, heard);
    const session = await store.session("s", { agent: "clerk" });
    await session.effect(byHand.name, byHand.input, { mode: "once", key: "n" }, async () => noted);
    const before = await session.checkpoint();
    await session.close();

    const turn = async () => {
      const stream = clerk.stream("s", "go");
      for await (const event of stream) if (event.type === "tool") heard.events.push(event);
      return stream.result();
    };
    const first = await turn();
    const pending = first.status === "in-doubt" ? first.pending : [];
    const listed = [
      ...(await store.effects.list({ status: "waiting" })).items,
      ...(await store.effects.list({ status: "in-doubt" })).items,
    ];
    const got = await Promise.all(listed.map(({ effectId }) => store.effects.get(effectId)));
    const printed = kind === "memory" ? [] : await effectsOf(at);
    const open = [...waiting, "ship"] as const;
    for (const place of [pending, listed, got as readonly Pending[], ...printed]) {
      for (const name of open)
        expect(byName(place, name).map(shapeOf), name).toEqual([calls[name]]);
      expect(othersIn(place)).toEqual([]);
    }

    const idOf = (name: Name) => byName(listed, name)[0]?.effectId as string;
    await store.effects.approve(idOf("pay"), { by: "ana" });
    await store.effects.deny(idOf("mail"), { by: "ana", reason: ends.mail.output });
    await store.effects.settle(idOf("ship"), { by: "ana", output: ends.ship.output });
    expect(await turn()).toMatchObject({ status: "completed", output: "Done." });

    // The reply and the tool messages.
    const messages = (await store.sessions.state("s"))?.messages ?? [];
    const parts = messages.flatMap(({ content }) => (typeof content === "string" ? [] : content));
    for (const name of names) {
      expect(parts).toContainEqual({ type: "tool-call", ...calls[name] });
      const { callId } = calls[name];
      expect(parts).toContainEqual({ type: "tool-result", callId, name, ...ends[name] });
    }

    // Those who follow the session, and those who stream the run.
    const followed: Extract<SessionEvent, { type: "tool" }>[] = [];
    for await (const event of store.sessions.events("s", { live: false }))
      if (event.type === "tool") followed.push(event);
    for (const name of names) {
      const told = byName(followed, name);
      expect(told[0]).toMatchObject({ ...calls[name], effectId: told[0]?.effectId });
      // What does no harm has no outcome of its own in the journal: its tool message is it.
      if (name !== "look") expect(told.at(-1)).toMatchObject(ends[name]);
      const streamed = byName(heard.events, name);
      expect(streamed[0]).toMatchObject(calls[name]);
      expect(streamed.findLast(({ outcome }) => outcome !== undefined)).toMatchObject(ends[name]);
      for (const event of [...told, ...streamed]) {
        const { callId } = calls[name];
        expect(event).toMatchObject({ name, callId, effectId: told[0]?.effectId });
      }
    }
    const [begun, ended] = byName(followed, byHand.name);
    expect(begun).toMatchObject({ ...byHand, state: "started" });
    expect(ended).toMatchObject({ name: byHand.name, state: "done", outcome: "ok", output: noted });
    expect([begun, ended].some((event) => event !== undefined && "callId" in event)).toBe(false);
    expect(othersIn([followed, heard.events])).toEqual([]);
    if (kind !== "memory") expect(await tailOf(at)).toEqual(followed);

    // Tools, their checks and approvals, and telemetry.
    for (const name of names.filter((one) => one !== "mail")) {
      const [context] = byName(heard.contexts, name);
      const { effectId } = byName(followed, name)[0] as { effectId: string };
      expect(context).toEqual({ ...calls[name], effectId });
      expect(byName(heard.operations, name)[0]).toMatchObject({ ...calls[name], effectId });
    }
    expect(heard.checks).toMatchObject([{ input: calls.ship.input }]);
    expect(heard.approvals).toEqual([calls.pay.input, calls.mail.input]);
    expect(heard.results).toContainEqual({ output: ends.pay.output });
    for (const name of names)
      for (const event of byName(heard.telemetry, name))
        expect(event).toMatchObject({ name, callId: calls[name].callId });
    expect(othersIn([heard.operations, heard.results, heard.telemetry])).toEqual([]);

    // What going back leaves behind: of these calls the world knows.
    const again = await store.session("s");
    const { passed } = await again.rewind(before.id);
    for (const name of ["pay", "refund", "ship"] as const)
      expect(byName(passed, name)).toMatchObject([{ ...calls[name], outcome: ends[name].outcome }]);
    expect(othersIn(passed)).toEqual([]);
    await again.close();
  });

  test("is told to a follower that comes later, from any cursor on", async () => {
    const heard = new Heard();
    const store = await opened(address(), heard);
    await clerkOf(store, heard).run("s", "go");
    const all: SessionEvent[] = [];
    for await (const event of store.sessions.events("s", { live: false })) all.push(event);
    for (const [i, { cursor }] of all.entries()) {
      const later: SessionEvent[] = [];
      for await (const event of store.sessions.events("s", { after: cursor, live: false }))
        later.push(event);
      expect(later).toEqual(all.slice(i + 1));
    }
    const told = all.filter((event) => event.type === "tool");
    expect(told.every(({ name, callId }) => name !== undefined && callId !== undefined)).toBe(true);
  });
});

const lines = (stdout: string): readonly string[] => stdout.trim().split("\n");

/** What the command line lists of calls: in `effects`, and beside the conversation in `show`. */
async function effectsOf(at: string): Promise<readonly (readonly Pending[])[]> {
  const effects = await run(["effects", "--json", "--store", at]);
  const { items } = JSON.parse(effects.stdout) as { items: readonly Pending[] };
  const shown = await run(["show", "s", "--json", "--store", at]);
  const { effects: open } = JSON.parse(shown.stdout) as { effects: readonly Pending[] };
  return [items, open];
}

async function tailOf(at: string): Promise<readonly unknown[]> {
  const { stdout } = await run(["tail", "s", "-n", "1000", "--json", "--store", at]);
  return lines(stdout)
    .map((line) => JSON.parse(line) as SessionEvent)
    .filter(({ type }) => type === "tool");
}
