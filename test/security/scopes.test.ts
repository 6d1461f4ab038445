/**
 * Tools of one agent tell nothing of what other agents have: not by answers, scores, order,
 * cursors or errors, and not by the work done.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { Scan } from "../../src/features/search/scan.js";
import { Holdfast as Opened } from "../../src/holdfast.js";
import { type Holdfast, open } from "../../src/index.js";
import { openStore } from "../../src/open.js";
import { thisMachine } from "../../src/store/machine.js";
import { errorOf } from "../support/error-of.js";
import { wrapped } from "../support/failures/wrapped.js";
import { everyStore, stores } from "../support/stores.js";

/** How many texts a scope has at most that is gone over text by text. */
const scope = vi.hoisted(() => ({ most: 10_000 }));
vi.mock("../../src/store/search-port.js", async (original) => ({
  ...(await original<object>()),
  get MOST_GONE_OVER() {
    return scope.most;
  },
}));

const BEGAN = Date.parse("2026-01-01T00:00:00Z");

type Said = readonly (readonly [role: "user" | "assistant", text: string])[];

/** What is said by both agents, and what by one of them alone. */
const OWN: Readonly<Record<string, Said>> = {
  "a-1": [
    ["user", "Where does kelp grow? Kelp, kelp."],
    ["assistant", "Kelp grows on a rock, by its holdfast, in cold water."],
  ],
  "a-2": [
    ["user", "kelp"],
    ["assistant", `A long answer about kelp and rock: ${"water and stone and sand ".repeat(40)}`],
  ],
  "a-3": [["user", "rock kelp"]],
};
const OTHERS: Readonly<Record<string, Said>> = {
  "b-1": [
    ["user", "The merger with Acme is secret. Kelp!"],
    ["assistant", "kelp kelp kelp rock on a rock, holdfast"],
  ],
  "b-2": [["user", `${"kelp rock holdfast merger ".repeat(300)}`]],
  "b-3": [["user", "Secretly: merging. kelpie"]],
};

/**
 * A store whose clock stands still but for what the agent of the test does: others must not be seen
 * in its times either.
 */
async function world(address: string, withOthers: boolean): Promise<Holdfast> {
  let now = BEGAN;
  const hold = await open(address, { clock: { now: () => now } });
  const say = async (agent: string, id: string, said: Said) => {
    const session = await hold.session(id, { agent, title: `${agent} of kelp`, tags: ["sea"] });
    for (const [i, [role, content]] of said.entries())
      session.append({ role, content, id: `${id}-${i}` });
    const { id: at } = await session.checkpoint();
    await session.close();
    return at;
  };
  const others = Object.entries(OTHERS);
  const tellOther = async (i: number) => {
    const [id, said] = others[i] as [string, Said];
    if (withOthers) await say("bea", id, said);
  };
  await tellOther(0);
  for (const [i, [id, said]] of Object.entries(OWN).entries()) {
    now = BEGAN + 1_000 * (i + 1);
    const at = await say("ann", id, said);
    // A line that no session owns any more, and is the agent's by its fork.
    if (i === 0) {
      await hold.sessions.fork(at, { id: "a-fork" });
      await hold.sessions.delete(id);
    }
  }
  await tellOther(1);
  if (withOthers) {
    await hold.sessions.fork(await say("bea", "b-4", OTHERS["b-1"] as Said), { id: "b-fork" });
    await hold.sessions.delete("b-4");
    for (let i = 0; i < 25; i++) await say("bea", `b-more-${i}`, [["user", `kelp ${i} secret`]]);
  }
  await tellOther(2);
  await hold.agents.save({ id: "ann" });
  if (withOthers) await hold.agents.save({ id: "bea" });
  await hold.sessions.index();
  return hold;
}

const QUERIES = [
  "kelp",
  "rock",
  "kelp rock",
  "holdfast",
  '"kelp grows"',
  '"rock kelp"',
  '"its hold"*',
  "kel*",
  "kelp -rock",
  'kelp -"rock by"',
  "ann",
  // Only others say these.
  "merger",
  "secret",
  "acme merger",
  "merg*",
  "kelp -secret",
  // No one does.
  "zeppelin",
  "zepp*",
];

/** With filters: of each kind one. */
const SOME = ["kelp rock", "kel*", '"kelp grows"', "merger", "zeppelin"];
const FILTERS = [
  {},
  { limit: 1 },
  { tag: "sea" },
  { role: "user" },
  { since: "2026-01-01T00:00:02Z" },
  { session: "a-2" },
  { session: "a-fork" },
];

/** All pages of a search, as they are told. */
async function told(hold: Holdfast, query: string, filter: object): Promise<string> {
  const { conversation_search } = hold.tools({ agent: "ann" });
  let text = "";
  for (let cursor: string | undefined, pages = 0; pages < 20; pages++) {
    const page = await conversation_search.execute({
      query,
      ...filter,
      ...(cursor !== undefined && { cursor }),
    } as never);
    text += `${JSON.stringify(page)}\n`;
    cursor = page.next;
    if (cursor === undefined) break;
  }
  return text;
}

const hasIndex = (name: string): boolean => name === "sqlite" || name === "postgres";
afterEach(() => {
  vi.restoreAllMocks();
});

describe.each(stores)("the tools of one agent, on $name", ({ name, address }) => {
  let alone: Holdfast;
  let beside: Holdfast;
  beforeAll(async () => {
    alone = await world(address(), false);
    beside = await world(address(), true);
  });
  afterAll(async () => {
    await alone.close();
    await beside.close();
  });

  test.each(FILTERS)(
    "search with %j answers the same bytes, whether others are there or not",
    async (filter) => {
      const some = Object.keys(filter).length === 0 ? QUERIES : SOME;
      for (const query of some)
        expect(await told(beside, query, filter), query).toBe(await told(alone, query, filter));
    },
  );

  test("control: something is found, with scores; and who sees all sees what others say", async () => {
    const { items } = JSON.parse(await told(beside, "kelp", {})) as {
      items: { sessionId: string; score: number }[];
    };
    expect(new Set(items.map(({ sessionId }) => sessionId))).toEqual(
      new Set(["a-fork", "a-2", "a-3"]),
    );
    expect(new Set(items.map(({ score }) => score)).size).toBeGreaterThan(3);
    // Those of FTS5 are over all texts: they are not for a scope.
    const scores = async (hold: Holdfast) => {
      const found = await hold.sessions.search("rock", { limit: 1_000 });
      return found.items.flatMap(({ sessionId, score }) =>
        sessionId.startsWith("a") ? [score] : [],
      );
    };
    if (name === "sqlite") expect(await scores(beside)).not.toEqual(await scores(alone));
    expect((await beside.sessions.search("merger")).items.length).toBeGreaterThan(2);
  });

  test("lists are the same, with their cursors", async () => {
    const lists = async (hold: Holdfast) => {
      const tools = hold.tools({ agent: "ann" });
      const pages: unknown[] = [];
      for (const [name, input] of [
        ["conversation_list", { limit: 1 }],
        ["conversation_list", {}],
        ["agent_list", {}],
        ["checkpoint_list", { conversations: true }],
      ] as const) {
        const page = await tools[name].execute(input as never);
        pages.push(
          JSON.parse(
            JSON.stringify(page)
              .replaceAll(/[0-9a-z]{16}-\d+/g, "PLACE")
              .replaceAll(/"digest":"[^"]*"/g, '"digest":""'),
          ),
        );
      }
      return pages;
    };
    expect(await lists(beside)).toEqual(await lists(alone));
  });

  test("a list goes on where it ended, and takes no cursor of another's", async () => {
    const { conversation_list } = beside.tools({ agent: "ann" });
    const found: string[] = [];
    for (let cursor: string | undefined, pages = 0; pages < 10; pages++) {
      const { items, next }: Awaited<ReturnType<typeof conversation_list.execute>> =
        await conversation_list.execute({
          limit: 1,
          ...(cursor !== undefined && { cursor }),
        });
      found.push(...items.map(({ id }) => id));
      cursor = next;
      if (cursor === undefined) break;
    }
    expect(found).toEqual(["a-3", "a-2", "a-fork"]);
    const refused = async (id: string) => {
      const cursor = `i${Buffer.from(id).toString("base64url")}`;
      const { code, message } = (await errorOf(() => conversation_list.execute({ cursor }))) as {
        code: string;
        message: string;
      };
      return `${code} ${message.replaceAll(cursor, "CURSOR")}`;
    };
    expect(await refused("b-1")).toBe(await refused("b-0"));
    expect(await errorOf(() => conversation_list.execute({ cursor: "s4" }))).toMatchObject({
      code: "INVALID_OPTION",
    });
  });

  test("an id of another's is told from one that is not there by nothing", async () => {
    const tools = beside.tools({ agent: "ann" });
    const [foreign] = (await beside.checkpoints.list("b-1")).items;
    const snapshot = await beside.agents.snapshot("bea");
    const refused = async (call: () => Promise<unknown>, id: string) => {
      const { code, message, details } = (await errorOf(call)) as {
        code: string;
        message: string;
        details: object;
      };
      return JSON.stringify({ code, message, details }).replaceAll(id, "ID");
    };
    const place = `${"0".repeat(16)}-1`;
    for (const [call, theirs, none] of [
      [(id: string) => tools.conversation_load.execute({ id }), "b-1", "b-0"],
      [(id: string) => tools.agent_load.execute({ id }), "bea", "bob"],
      [(id: string) => tools.conversation_list.execute({ agent: id }), "bea", "bob"],
      [
        (id: string) => tools.conversation_search.execute({ query: "kelp", agent: id }),
        "bea",
        "bob",
      ],
      [(id: string) => tools.checkpoint_list.execute({ session: id }), "b-1", "b-0"],
      [
        (id: string) => tools.checkpoint_fork.execute({ checkpoint: id } as never),
        foreign?.id ?? "",
        place,
      ],
      [
        (id: string) => tools.checkpoint_diff.execute({ from: id, to: id } as never),
        foreign?.id ?? "",
        place,
      ],
      [
        (id: string) => tools.conversation_load.execute({ id: "a-2", at: id }),
        foreign?.id ?? "",
        place,
      ],
      [
        (id: string) => tools.checkpoint_restore.execute({ id } as never),
        snapshot.id,
        "snap-0000000000000000",
      ],
    ] as const)
      expect(await refused(() => call(theirs), theirs)).toBe(await refused(() => call(none), none));
    const found = (session: string) =>
      tools.conversation_search.execute({ query: "kelp", session });
    expect(await found("b-1")).toEqual(await found("b-0"));
  });
});

describe("the work of a search in a scope", () => {
  const words = ["merger", "secret", "merg*", "acme merger", "zeppelin", "zepp*"];

  test.each(everyStore)(
    "$name: no text of others is read, and no index is asked",
    async ({ address }) => {
      const store = await openStore(address());
      const read: string[] = [];
      const calls = {
        saves: ((line, query) => {
          read.push(line);
          return store.saves(line, query);
        }) as typeof store.saves,
      };
      const hold = new Opened(wrapped(store, calls), thisMachine(), { now: Date.now }, 30_000);
      for (const [agent, sessions] of [
        ["ann", OWN],
        ["bea", OTHERS],
      ] as const)
        for (const [id, said] of Object.entries(sessions))
          await hold.sessions.append(
            id,
            said.map(([role, content]) => ({ role, content })),
            { create: true, agent },
          );
      // Lines that no session owns any more, and that are an agent's by a fork.
      for (const id of ["a-1", "b-1"]) {
        const [at] = (await hold.checkpoints.list(id)).items;
        await hold.sessions.fork(at?.id ?? "", { id: `${id}-fork` });
      }
      const linesOf = async (sessions: readonly string[]) =>
        (await Promise.all(sessions.map((session) => store.branches({ kind: "session", session }))))
          .flat()
          .map(({ id }) => id);
      const own = new Set(await linesOf([...Object.keys(OWN), "a-1-fork"]));
      for (const id of ["a-1", "b-1"]) await hold.sessions.delete(id);
      const asked = store.index && vi.spyOn(store.index, "find");
      for (const query of words) {
        read.length = 0;
        await hold.tools({ agent: "ann" }).conversation_search.execute({ query });
        expect(new Set(read)).toEqual(own);
      }
      expect(asked?.mock.calls ?? []).toEqual([]);
      // Control: who sees all finds what others say, by an index where there is one.
      read.length = 0;
      await hold.sessions.index();
      await hold.tools().conversation_search.execute({ query: "merger" });
      if (asked === undefined) expect(new Set(read).size).toBeGreaterThan(own.size);
      else expect(asked.mock.calls.length).toBeGreaterThan(0);
      await hold.close();
    },
  );
});

describe.each(stores)("a scope too large to be gone over, on $name", ({ name, address }) => {
  test("answers the same bytes, whether others are there or not", async () => {
    const [alone, beside] = [await world(address(), false), await world(address(), true)];
    const all = async (hold: Holdfast) => {
      let text = "";
      for (const query of SOME) text += await told(hold, query, { limit: 3 });
      return text;
    };
    const scans = vi.spyOn(Scan.prototype, "find");
    scope.most = 2;
    const large = await all(alone);
    expect(large).toContain("kelp");
    expect(await all(beside)).toBe(large);
    scope.most = 10_000;
    // Control: it was the index that answered, where there is one. An index that fails is passed
    // over without a word.
    expect(scans.mock.calls.length === 0).toBe(hasIndex(name));
    await alone.close();
    await beside.close();
  });
});
