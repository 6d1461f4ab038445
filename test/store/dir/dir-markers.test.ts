/**
 * Markers of mail in a directory: whatever is killed, and whatever comes in between, where mail
 * waits there is one.
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import type { WholeStore as Store } from "../../../src/store/capabilities.js";
import { Claims } from "../../../src/store/dir/claims/claims.js";
import { InboxMarkers } from "../../../src/store/dir/claims/inbox-markers.js";
import { sessionPath } from "../../../src/store/dir/files/names.js";
import { openDir } from "../../../src/store/dir/open.js";
import { Inbox } from "../../../src/store/dir/sessions/inbox.js";
import { SessionFiles } from "../../../src/store/dir/sessions/session-files.js";
import { begin } from "../../../src/testing/contract/fixture.js";
import { failure, instead, mend } from "../../support/failures/failing-calls.js";
import { fresh } from "../../support/places.js";
import { isThorough } from "../../support/runs.js";

afterEach(mend);

const CALLS = [
  "openSync",
  "writeSync",
  "renameSync",
  "linkSync",
  "unlinkSync",
  "fsyncSync",
  "mkdirSync",
  "readdirSync",
  "utimesSync",
];

interface Fate {
  /** At which call something else happens, and what. */
  readonly at?: number;
  readonly act?: () => void;
  /** At which call the process ends: from there on it does nothing more. */
  readonly diesAt?: number;
}

/** Counts the calls of what runs until it is mended, and lets happen what is to happen. */
function watchCalls({ at, act, diesAt = Number.POSITIVE_INFINITY }: Fate): { count: number } {
  const seen = { count: 0 };
  let isActing = false;
  for (const name of CALLS) {
    const call = instead(name, (...args: unknown[]) => {
      if (isActing) return call(...args);
      seen.count += 1;
      if (seen.count === at) {
        isActing = true;
        act?.();
        isActing = false;
      }
      if (seen.count >= diesAt) throw failure("EIO");
      return call(...args);
    });
  }
  return seen;
}

interface Made {
  readonly path: string;
  readonly poster: Store;
  /** Whether no mail waits, or there is a marker. */
  readonly isFound: () => boolean;
  /** What a claim does about a marker that may be needless. */
  readonly settle: () => void;
}

/** A session "a" that nothing waits for; its marker is there all the same where `marked`. */
async function made({ marked }: { readonly marked: boolean }): Promise<Made> {
  const path = join(fresh(), "store");
  const store = await openDir(path);
  await store.apply([begin("a", { agent: "x" }), begin("b")]);
  // So that the directories are there.
  for (const session of ["a", "b"])
    await store.inbox.post(session, { id: "old", text: "x", due: 0 });
  await store.apply([{ session: "a", when: {}, drained: ["old"] }]);
  const waiting = new InboxMarkers(path);
  expect(waiting.names()).toEqual(["b"]);
  if (marked) waiting.mark("a");
  const { no } = (await store.session("a")).row as { no: number };
  await store.close();
  const due = new Claims(path, new SessionFiles(path), undefined as never, waiting);
  return {
    path,
    poster: await openDir(path),
    isFound: () =>
      new Inbox(join(path, sessionPath("a")), no).firstDue([]) === undefined || waiting.has("a"),
    settle: () => due.settle("a"),
  };
}

const post = (poster: Store): Promise<unknown> =>
  poster.inbox.post("a", { id: "new", text: "x", due: 0 }).catch(() => {});

test.each([true, false])(
  "MARKER-1: a process killed at any call while it posts (marked before: %s) leaves no mail unmarked",
  async (marked) => {
    for (let diesAt = 1; ; diesAt++) {
      const { poster, isFound } = await made({ marked });
      const seen = watchCalls({ diesAt });
      await post(poster);
      mend();
      expect(isFound(), `killed at call ${diesAt}`).toBe(true);
      // Posted again by somebody else, it is there, and is found.
      await post(poster);
      expect(isFound()).toBe(true);
      await poster.close();
      if (seen.count < diesAt) break;
      expect(diesAt).toBeLessThan(100);
    }
  },
);

/**
 * All interleavings, or each fourth, of one who posts, with a claim at some call of it, and an end
 * at some later one. Answers those that lost a marker.
 */
async function interleave(marked: boolean, settleBy: (m: Made) => () => void): Promise<string[]> {
  const lost: string[] = [];
  for (let at = 1; ; at += isThorough ? 1 : 4) {
    let calls = 0;
    for (let diesAt = at; ; diesAt++) {
      const m = await made({ marked });
      const seen = watchCalls({ at, act: settleBy(m), diesAt });
      await post(m.poster);
      mend();
      if (!m.isFound()) lost.push(`claimed at ${at}, killed at ${diesAt}`);
      await m.poster.close();
      calls = seen.count;
      if (seen.count < diesAt) break;
    }
    if (calls < at) return lost;
  }
}

test.each([true, false])(
  "MARKER-2: a claim at any call of one who posts (marked before: %s), and a kill at any later one, leave no mail unmarked",
  { timeout: 300_000 },
  async (marked) => {
    expect(await interleave(marked, ({ settle }) => settle)).toEqual([]);
  },
);

test("MARKER-2: negative control: a claim that does not look for drafts loses a marker", {
  timeout: 300_000,
}, async () => {
  const careless = ({ path }: Made) => {
    const waiting = new InboxMarkers(path);
    return () =>
      waiting.settle("a", () => existsSync(join(path, sessionPath("a"), "inbox", "new.json")));
  };
  expect(await interleave(true, careless)).not.toEqual([]);
});

test.each([true, false])(
  "MARKER-2: mail posted at any call of a claim (and the claim killed at any later: %s) is not unmarked",
  async (killed) => {
    for (let at = 1; ; at++) {
      let calls = 0;
      for (let diesAt = killed ? at : Number.POSITIVE_INFINITY; ; diesAt++) {
        const { poster, isFound, settle } = await made({ marked: true });
        const posted: Promise<unknown>[] = [];
        const seen = watchCalls({ at, act: () => void posted.push(post(poster)), diesAt });
        try {
          settle();
        } catch {
          // It was killed.
        }
        mend();
        expect(isFound(), `posted at ${at}, killed at ${diesAt}`).toBe(true);
        await Promise.all(posted);
        await poster.close();
        calls = seen.count;
        if (seen.count < diesAt) break;
      }
      if (calls < at) break;
    }
  },
);

test("who watches is told once the mail is there", async () => {
  const { path, poster } = await made({ marked: true });
  const told: boolean[] = [];
  const touch = instead("utimesSync", (...args: unknown[]) => {
    told.push(existsSync(join(path, sessionPath("a"), "inbox", "new.json")));
    return touch(...args);
  });
  await post(poster);
  expect(told).toEqual([true]);
  await poster.close();
});

test("one who was asleep until its draft was taken for a dead one's marks its mail again", async () => {
  const { path, poster } = await made({ marked: true });
  const link = instead("linkSync", (...args: unknown[]) => {
    new InboxMarkers(path).settle("a", () => false);
    return link(...args);
  });
  await post(poster);
  expect(new InboxMarkers(path).has("a")).toBe(true);
  await poster.close();
});

test("a marker behind which nothing waits is removed by a claim, and one that was set aside counts", async () => {
  const { path, poster, settle } = await made({ marked: true });
  settle();
  expect(readdirSync(join(path, "waiting"))).toEqual(["b"]);
  await post(poster);
  settle();
  expect(readdirSync(join(path, "waiting")).toSorted()).toEqual(["a~", "b"]);
  expect(
    (await poster.claims.claim({ agent: "x", dueBy: 0, limit: 5 }, ({ lease }) => lease)).map(
      ({ id }) => id,
    ),
  ).toEqual(["a"]);
  await poster.apply([{ session: "a", when: {}, drained: ["new"] }]);
  expect(readdirSync(join(path, "waiting"))).toEqual(["b"]);
  await poster.close();
});
