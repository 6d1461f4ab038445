/** Claims: finding sessions that need work, and giving each to one worker. */
import assert from "node:assert/strict";
import type { Granting } from "../../store/port/claims.js";
import type { LeaseRow, SessionRow } from "../../store/port/rows.js";
import { type ContractCase, defineFor, type Having, ok, refused } from "./case.js";
import { begin, Fixture } from "./fixture.js";

/** What a worker does: takes what is free, for a minute, with the next epoch. */
const take: Granting = ({ lease }, now) =>
  lease.until > now ? undefined : next(lease, now + 60_000);
const next = ({ epoch }: LeaseRow, until: number): LeaseRow => ({
  epoch: epoch + 1,
  until,
  text: `claimed with ${epoch + 1}`,
});
const idsOf = (rows: readonly SessionRow[]): string[] => rows.map(({ id }) => id);

/** The ids that a claim would look at, in its order. Nothing is granted. */
async function offered(
  store: Having<"claims">,
  dueBy: number,
  { agent = "x", limit = 100 } = {},
): Promise<string[]> {
  const seen: string[] = [];
  const none = await store.claims.claim({ agent, dueBy, limit }, ({ id }) => {
    // It may be asked again for the same row.
    if (!seen.includes(id)) seen.push(id);
    return undefined;
  });
  assert.deepEqual(none, []);
  return seen;
}

const head = (made: ReturnType<typeof begin>, due: number | null, agent = "x") => ({
  session: made.session,
  when: { epoch: 1 },
  head: { ...made.head, agent, due },
});

const define = defineFor("claims");
const defineWithInbox = defineFor("claims", "inbox");

export const claims: readonly ContractCase[] = [
  define("a claim is given the sessions of its agent that are due, the longest due first", {
    async act(store) {
      const dues = { s30: 30, s10: 10, later: 101, idle: undefined, s20: 20, t10: 10, now: 100 };
      for (const [id, due] of Object.entries(dues))
        ok(await store.apply([begin(id, { agent: "x", ...(due && { due }) })]));
      ok(
        await store.apply([begin("other", { agent: "y", due: 5 }), begin("nobody's", { due: 5 })]),
      );
      assert.deepEqual(await offered(store, 4), []);
      assert.deepEqual(await offered(store, 100, { agent: "X" }), []);
      assert.deepEqual(await offered(store, 100), ["s10", "t10", "s20", "s30", "now"]);
      assert.deepEqual(await store.claims.claim({ agent: "x", dueBy: 100, limit: 0 }, take), []);
      const first = await store.claims.claim({ agent: "x", dueBy: 100, limit: 2 }, take);
      assert.deepEqual(idsOf(first), ["s10", "t10"]);
      const rest = await store.claims.claim({ agent: "x", dueBy: 100, limit: 2 }, take);
      assert.deepEqual(idsOf(rest), ["s20", "s30"]);
      return [...first, ...rest];
    },
    async check(store, claimed) {
      for (const row of claimed) {
        assert.equal(row.lease.epoch, 2);
        assert.deepEqual((await store.session(row.id)).row, row, "as it is afterwards");
      }
      for (const id of ["now", "later", "idle", "other", "nobody's"])
        assert.equal((await store.session(id)).row?.lease.epoch, 1);
    },
  }),

  defineWithInbox(
    "turns in its mail do not make a session due that waits for somebody; anything else does, and they do once it goes on",
    {
      async act(store) {
        const made = ["in-progress", "waiting", "in-doubt", "completed"].map((status) => {
          const one = begin(status, { agent: "x" });
          return { ...one, head: { ...one.head, status } };
        });
        for (const one of made) ok(await store.apply([one]));
        for (const { session } of made)
          assert.equal(
            await store.inbox.post(session, { id: "turn:1", text: "x", due: 10 }),
            "posted",
          );
        assert.deepEqual(await offered(store, 100), ["in-progress", "completed"]);
        assert.equal(
          await store.inbox.post("waiting", { id: "turn", text: "x", due: 20 }),
          "posted",
        );
        assert.equal(
          await store.inbox.post("in-doubt", { id: "TURN:2", text: "x", due: 30 }),
          "posted",
        );
        assert.deepEqual(await offered(store, 100), [
          "in-progress",
          "completed",
          "waiting",
          "in-doubt",
        ]);
        ok(await store.apply([{ session: "waiting", when: { epoch: 1 }, drained: ["turn"] }]));
        const [goes, , doubts, waits] = made as [
          (typeof made)[number],
          unknown,
          (typeof made)[number],
          (typeof made)[number],
        ];
        const as = ({ session, head }: typeof goes, status: string) => ({
          session,
          when: { epoch: 1 },
          head: { ...head, status },
        });
        ok(await store.apply([as(goes, "waiting"), as(waits, "waiting"), as(doubts, "failed")]));
        return undefined;
      },
      async check(store) {
        assert.deepEqual(await offered(store, 100), ["in-doubt"]);
        assert.deepEqual(
          (await store.inbox.list("waiting", { dueBy: 100, limit: 10 })).map(({ id }) => id),
          ["turn:1"],
        );
      },
    },
  ),

  defineWithInbox("mail that is due makes its session due, by the first of all that waits", {
    async act(store) {
      const made = ["a", "b", "c", "d", "e"].map((id) =>
        begin(id, { agent: "x", ...(id === "b" && { due: 50 }) }),
      );
      for (const one of made) ok(await store.apply([one]));
      const post = (session: string, due: number) =>
        store.inbox.post(session, { id: `${session} ${due}`, text: "x", due });
      for (const due of [70, 40, 90]) assert.equal(await post("c", due), "posted");
      for (const due of [60, 0]) assert.equal(await post("d", due), "posted");
      assert.equal(await post("b", 80), "posted");
      assert.equal(await post("a", 40), "posted");
      assert.deepEqual(await offered(store, 39), ["d"]);
      assert.deepEqual(await offered(store, 90), ["d", "a", "c", "b"]);
      // What was taken in counts no more, nor does a head that has nothing to do; what else waits
      // does.
      ok(await store.apply([{ session: "c", when: { epoch: 1 }, drained: ["c 40"] }]));
      ok(await store.apply([{ session: "d", when: { epoch: 1 }, drained: ["d 0", "d 60"] }]));
      assert.deepEqual(await offered(store, 90), ["a", "b", "c"]);
      ok(await store.apply([head(made[1] as never, null), head(made[4] as never, 30)]));
      assert.deepEqual(await offered(store, 90), ["e", "a", "c", "b"]);
      // To another agent it goes with all that waits for it.
      ok(await store.apply([head(made[0] as never, null, "y"), head(made[4] as never, null)]));
      return undefined;
    },
    async check(store) {
      assert.deepEqual(await offered(store, 69), []);
      assert.deepEqual(await offered(store, 80), ["c", "b"]);
      assert.deepEqual(await offered(store, 80, { agent: "y" }), ["a"]);
    },
  }),

  define("what a claim passes over stays as it is, and others are looked at in its place", {
    async act(store) {
      for (let i = 0; i < 9; i++) ok(await store.apply([begin(`s${i}`, { agent: "x", due: i })]));
      const before = await store.now();
      const clocks: number[] = [];
      const odd: Granting = (row, now) => {
        clocks.push(now);
        return Number(row.id.slice(1)) % 2 ? next(row.lease, 7) : undefined;
      };
      const claimed = idsOf(await store.claims.claim({ agent: "x", dueBy: 100, limit: 3 }, odd));
      assert.deepEqual(claimed, ["s1", "s3", "s5"]);
      const after = await store.now();
      assert.ok(
        clocks.length >= 5 && clocks.every((now) => before <= now && now <= after),
        "it is told the store's clock",
      );
      return claimed;
    },
    async check(store, claimed) {
      for (const { id, lease } of await store.sessions({ limit: 100 }))
        assert.deepEqual(
          lease,
          claimed.includes(id) ? { epoch: 2, until: 7, text: "claimed with 2" } : begin(id).lease,
        );
    },
  }),

  define("no two claims that come together are given the same session", {
    async act(store) {
      await store.apply(
        Array.from({ length: 30 }, (_, i) => begin(`s${i}`, { agent: "x", due: i })),
      );
      const claims = await Promise.all(
        Array.from({ length: 12 }, () =>
          store.claims.claim({ agent: "x", dueBy: 100, limit: 4 }, take),
        ),
      );
      const claimed = claims.flatMap(idsOf);
      assert.equal(new Set(claimed).size, claimed.length);
      // One that came while another looked at the same may have found less than there was.
      for (let more = [""]; more.length > 0; claimed.push(...more))
        more = idsOf(await store.claims.claim({ agent: "x", dueBy: 100, limit: 4 }, take));
      assert.deepEqual(
        claimed.toSorted(),
        Array.from({ length: 30 }, (_, i) => `s${i}`).toSorted(),
      );
      return undefined;
    },
    async check(store) {
      assert.ok((await store.sessions({ limit: 100 })).every(({ lease }) => lease.epoch === 2));
      assert.deepEqual(await store.claims.claim({ agent: "x", dueBy: 100, limit: 4 }, take), []);
    },
  }),

  define("a claim fences the holder before it", {
    async act(store) {
      const f = new Fixture("a", { agent: "x", due: 1 });
      ok(await store.apply([f.begin()]));
      ok(await store.apply([f.save({ items: 1 })]));
      assert.deepEqual(idsOf(await store.claims.claim({ agent: "x", dueBy: 1, limit: 1 }, take)), [
        "a",
      ]);
      refused(await store.apply([f.peek({ items: 1 }, 1)]), "epoch");
      ok(await store.apply([f.save({ items: 1 }, 2)]));
      return f;
    },
    async check(store, f) {
      refused(await store.apply([f.peek({ items: 1 }, 1)]), "epoch");
      assert.equal((await store.session("a")).row?.lease.epoch, 2);
    },
  }),

  define(
    "a lease that lasts is offered only where whoever claims can tell whether its owner is dead",
    {
      async act(store) {
        const until = (await store.now()) + 600_000;
        ok(
          await store.apply([
            begin("held", { agent: "x", due: 1, until }),
            begin("free", { agent: "x", due: 2 }),
          ]),
        );
        return undefined;
      },
      async check(store) {
        assert.deepEqual(
          await offered(store, 10),
          store.traits.oneMachine ? ["held", "free"] : ["free"],
        );
      },
    },
  ),

  defineWithInbox("what was deleted is due no more, and one of the same name is another", {
    async act(store) {
      ok(await store.apply([begin("a", { agent: "x", due: 1 }), begin("b", { agent: "x" })]));
      for (const id of ["a", "b"])
        assert.equal(await store.inbox.post(id, { id: "m", text: "x", due: 0 }), "posted");
      assert.deepEqual(await offered(store, 10), ["a", "b"]);
      for (const id of ["a", "b"]) ok(await store.apply([{ session: id, when: {}, remove: true }]));
      assert.deepEqual(await offered(store, 10), []);
      ok(
        await store.apply([
          begin("a", { agent: "x", epoch: 2 }),
          begin("b", { agent: "x", epoch: 2, due: 7 }),
        ]),
      );
      return undefined;
    },
    async check(store) {
      assert.deepEqual(await offered(store, 6), []);
      assert.deepEqual(await offered(store, 7), ["b"]);
    },
  }),
];
