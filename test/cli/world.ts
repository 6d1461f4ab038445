/** A small store with something of everything in it, made at times that are known. */
import { agent, type Holdfast, type ModelReply, open } from "../../src/index.js";

/**
 * Where the clock begins. It goes on with every step: how often Holdfast looks at it depends on how
 * busy the machine is.
 */
const BEGAN = Date.UTC(2026, 2, 1, 12);

export interface World {
  /**
   * Lines in the order of their making, so that what is random in an output can be given a name.
   */
  readonly lines: readonly string[];
  readonly checkpoints: { readonly [name: string]: string };
  readonly effects: { readonly inDoubt: string; readonly waiting: string };
  readonly snapshot: string;
  readonly snapshotDigest: string;
}

const call = (name: string, input: object): ModelReply => ({
  content: `I use ${name}.`,
  toolCalls: [{ callId: `call-${name}`, name, input: input as never }],
  usage: { inputTokens: 1_200, outputTokens: 30 },
});

function support(hold: Holdfast, replies: ModelReply[]) {
  return hold.bind(
    agent({
      name: "support",
      system: "You help people with their orders.",
      model: async () => replies.shift() as ModelReply,
      tools: {
        lookup: {
          mode: "repeatable",
          run: ({ order }: { order: number }) => ({ order, item: "teapot", cents: 1_800 }),
        },
        refund: {
          mode: "keyed",
          run: ({ order }: { order: number }) => ({ receipt: `R-${order}` }),
        },
        email: {
          mode: "once",
          run: () => {
            throw new Error("the line went dead");
          },
        },
        pay: { mode: "once", approval: true, run: () => ({ paid: true }) },
      },
    }),
  );
}

export async function makeWorld(store: string, began = BEGAN): Promise<World> {
  let now = began;
  const hold = await open(store, { clock: { now: () => now }, search: false });
  const done = support(hold, [
    call("lookup", { order: 42 }),
    call("refund", { order: 42 }),
    {
      content: "Order 42 is refunded.\nThe money is on its way.",
      usage: { inputTokens: 1_300, outputTokens: 12 },
    },
  ]);
  now += 1_000;
  await done.run("order-42", "Refund order 42, it arrived broken.");
  const [last, , first] = (await hold.checkpoints.list("order-42")).items.map(({ id }) => id);
  now += 1_000;
  await hold.sessions.fork(first as string, { id: "order-42-what-if" });
  now += 1_000;
  const whatIf = await hold.session("order-42-what-if");
  whatIf.append({ role: "user", content: "Send a new one instead." });
  whatIf.set("plan", { send: "teapot", cents: 1_800, notes: ["wrap it well", "no plastic"] });
  now += 1_000;
  const other = await whatIf.checkpoint("another way");
  now += 1_000;
  await whatIf.close();
  now += 1_000;
  await hold.sessions.rewind("order-42", first as string);
  now += 1_000;
  const session = await hold.session("order-42");
  session.append({ role: "user", content: "Only half of it." });
  now += 1_000;
  const half = await session.checkpoint("half of it");
  now += 1_000;
  await session.close();

  now += 1_000;
  await support(hold, [call("email", { to: "ana@example.com" })]).run("order-43", "Write to ana.");
  now += 1_000;
  await support(hold, [call("pay", { cents: 99_900 })]).run("order-44", "Pay the bill.");
  now += 1_000;
  await hold.sessions.update("order-44", { tags: ["vip", "billing"] });

  now += 1_000;
  const wild = await hold.session("wild", { title: "odd \u001b[31mred\u001b[0m \u202etitle" });
  wild.append({
    role: "user",
    content: "bell \u0007 and \u001b]0;owned\u0007 and\r\nanother line\tand a tab",
  });
  wild.append({
    role: "assistant",
    content: [
      { type: "reasoning", text: "They play." },
      { type: "text", text: "日本語と絵文字 👩‍👩‍👧 は広い" },
      {
        type: "file",
        mediaType: "image/png",
        name: "a\u001b[2Jb.png",
        data: { bytes: new Uint8Array(2_048) },
      },
      { type: "tool-call", callId: "c1", name: "draw\u202e", input: { "k\u001b": "v\u0000" } },
      { type: "tool-result", callId: "c1", outcome: "error", output: "no \u001b[5mpaper" },
    ],
  });
  wild.set("key\u202eodd", { "k\u001b[31m": "C1 \u009b31m" });
  now += 1_000;
  await wild.checkpoint("label \u001b[31m");
  now += 1_000;
  await wild.fail("it broke:\n\u001b[31mbadly");
  now += 1_000;
  await wild.close();

  now += 1_000;
  const sums = await hold.session("sums", { agent: "counter" });
  for (const [step, total] of [10, 7, 4, -2, -9].entries()) {
    sums.append({ role: "user", content: `Take ${step + 1} more.` });
    sums.set("total", total);
    now += 1_000;
    await sums.checkpoint(step === 2 ? "still fine" : undefined);
  }
  now += 1_000;
  await sums.effect("print", { total: -9 }, { mode: "keyed", key: "print" }, async () => "printed");
  now += 1_000;
  await sums.complete("-9");
  now += 1_000;
  await sums.close();
  now += 1_000;
  await hold.sessions.update("sums", { archived: true });

  now += 1_000;
  const { id: snapshot, digest: snapshotDigest } = await hold.agents.snapshot("support", {
    name: "before the move",
  });
  const pending = async (status: "waiting" | "in-doubt") =>
    (await hold.effects.list({ status })).items[0]?.effectId ?? "";
  const effects = { inDoubt: await pending("in-doubt"), waiting: await pending("waiting") };
  const lines = new Set<string>();
  for (const id of ["order-42", "order-42-what-if", "order-43", "order-44", "wild", "sums"]) {
    const { items } = await hold.checkpoints.list(id, { limit: 100, branches: "all" });
    for (const checkpoint of items.toReversed()) lines.add(checkpoint.id.slice(0, 16));
    for (const effect of (await hold.sessions.state(id)).effects)
      lines.add(effect.effectId.slice(0, 16));
  }
  await hold.close();
  return {
    lines: [...lines],
    checkpoints: { first: first as string, last: last as string, other: other.id, half: half.id },
    effects,
    snapshot,
    snapshotDigest,
  };
}
