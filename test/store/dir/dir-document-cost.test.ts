/**
 * What documents cost in a directory that several processes write in turns: files looked at are
 * counted, and no time is measured.
 */
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setImmediate as breathe } from "node:timers/promises";
import { afterEach, describe, expect, test, vi } from "vitest";
import { placeId } from "../../../src/core/values/ids.js";
import type { WholeStore as Store } from "../../../src/store/capabilities.js";
import { DocFiles, type FiledDoc } from "../../../src/store/dir/documents/doc-files.js";
import { sealedText } from "../../../src/store/dir/files/checksummed-json.js";
import { openDir } from "../../../src/store/dir/open.js";
import { SessionFiles } from "../../../src/store/dir/sessions/session-files.js";
import type { DocChange } from "../../../src/store/port/documents.js";
import { begin, Fixture } from "../../../src/testing/contract/fixture.js";
import { instead, mend } from "../../support/failures/failing-calls.js";
import { scratch } from "../../support/stores.js";

const root = scratch();
let count = 0;
const fresh = (): string => join(root, `store-${++count}`);

afterEach(() => {
  mend();
  vi.useRealTimers();
});

const docOf = (id: string, no: number, pins: FiledDoc["pins"] = []): FiledDoc => ({
  kind: "k",
  id,
  no,
  of: null,
  version: 1,
  text: "",
  body: null,
  pins,
});

const made = (kind: string, id: string, pins: FiledDoc["pins"] = []): DocChange => ({
  kind,
  id,
  when: { absent: true },
  put: {
    of: null,
    version: 1,
    text: "text",
    body: null,
    pins: pins.map((pin) => ({ branch: pin.split("-")[0] as never, seq: 1 })),
  },
});

/** Counts how often files below `documents` are looked at, while `run` runs. */
async function looksDuring(run: () => Promise<unknown>): Promise<number> {
  let looks = 0;
  for (const name of ["openSync", "lstatSync", "readdirSync"]) {
    const real = instead(name, (...args: unknown[]) => {
      if (String(args[0]).includes("/documents/")) looks += 1;
      return real(...args);
    });
  }
  await run();
  mend();
  return looks;
}

const receipts = (store: Store, from: number, to: number): Promise<unknown> =>
  store.apply(
    [],
    [...Array(to - from).keys()].map((i) => made("receipt", `r-${from + i}`)),
  );

/** Two stores in turns, in a directory with so many documents. */
async function inTurns(
  documents: number,
): Promise<{ readonly one: Store; readonly two: Store; readonly f: Fixture }> {
  const path = fresh();
  const [one, two] = [await openDir(path), await openDir(path)];
  const f = new Fixture("s");
  await one.apply([f.begin()]);
  await receipts(one, 0, documents);
  await two.apply([begin("other")]);
  return { one, two, f };
}

describe("after another process has written", () => {
  test("a save looks at no document", async () => {
    const { one, two, f } = await inTurns(20);
    expect(await looksDuring(() => one.apply([f.save({ items: 1 })]))).toBe(0);
    await one.close();
    await two.close();
  });

  test("a new document costs the same, however many there are", async () => {
    const looks: number[] = [];
    for (const documents of [10, 150]) {
      const { one, two } = await inTurns(documents);
      looks.push(await looksDuring(() => one.apply([], [made("receipt", "new")])));
      looks.push(
        await looksDuring(() =>
          one.apply([], [{ kind: "receipt", id: "r-1", when: {}, remove: true }]),
        ),
      );
      await one.close();
      await two.close();
    }
    expect(looks.slice(0, 2)).toEqual(looks.slice(2));
  });

  test("PORT-10: what is pinned is looked for among the documents that may pin something, and no receipt is read", async () => {
    const looks: number[] = [];
    for (const documents of [10, 150]) {
      const { one, two, f } = await inTurns(documents);
      await two.close();
      looks.push(await looksDuring(() => one.documents.pins(f.branch)));
      looks.push(await looksDuring(() => one.reclaim.cut(f.branch, -1, 1, false)));
      await one.close();
    }
    expect(looks.slice(0, 2)).toEqual(looks.slice(2));
  });
});

test("what pins nothing by its kind is refused with pins: they would not be found", async () => {
  const store = await openDir(fresh());
  const f = new Fixture("s", { agent: "x" });
  await store.apply([f.begin(), f.save({ items: 1 })]);
  for (const kind of ["agent", "receipt"]) {
    const pinning = store.documents.capture({ agent: "x", limit: 1, hold: true }, () => ({
      changes: [],
      docs: [made(kind, "a", [placeId(f.branch, 1)])],
    }));
    await expect(pinning).rejects.toBeInstanceOf(TypeError);
  }
  await store.close();
});

test("PORT-10: a line may be pinned by more documents than a call takes arguments", async () => {
  const store = await openDir(fresh());
  const f = new Fixture("s", { agent: "x" });
  await store.apply([f.begin(), f.save({ items: 1 }), f.save({ items: 1 })]);
  const pins = new Array<FiledDoc["pins"][number]>(200_000).fill(placeId(f.branch, 1));
  await store.documents.capture({ agent: "x", limit: 1, hold: false }, () => ({
    changes: [],
    docs: [made("k", "a", pins)],
  }));
  await store.apply([{ session: "s", when: {}, remove: true }]);
  for (const dryRun of [true, false])
    expect((await store.reclaim.cut(f.branch, -1, 10, dryRun)).count).toBe(1);
  await store.close();
});

describe("DOCNO: numbers rise, and none is used twice", () => {
  const numbers = async (store: Store): Promise<number[]> =>
    (await store.documents.list({ kind: "k", limit: 1_000 })).map(({ no }) => no).toReversed();

  test("in turns, over removals, and past a process that was killed", async () => {
    const path = fresh();
    const [one, two] = [await openDir(path), await openDir(path)];
    const seen: number[] = [];
    for (let i = 0; i < 6; i++) {
      const store = i % 2 === 0 ? one : two;
      for (let n = 0; n < 40; n++) await store.apply([], [made("k", `${i} ${n}`)]);
      seen.push(...(await numbers(store)).slice(-40));
      // The newest goes: its number must not come again.
      await store.apply([], [{ kind: "k", id: `${i} 39`, when: {}, remove: true }]);
    }
    expect(new Set(seen).size).toBe(240);
    expect(seen).toEqual(seen.toSorted((a, b) => a - b));
    // As a kill leaves it.
    const killed = fresh();
    cpSync(path, killed, { recursive: true, filter: (name) => !name.includes("/lock-") });
    const after = await openDir(killed);
    await after.apply([], [made("k", "after")]);
    expect((await after.documents.get("k", "after"))?.no).toBeGreaterThan(seen.at(-1) as number);
    for (const store of [one, two, after]) await store.close();
  });

  test("a change that another process left half done, and finishes here, lowers nothing", () => {
    const path = fresh();
    mkdirSync(path);
    const [one, two] = [new SessionFiles(path), new SessionFiles(path)];
    const place = ({ documents }: SessionFiles, id: string): number => {
      const no = documents.last + 1;
      documents.place({ kind: "k", id, put: docOf(id, no) });
      return no;
    };
    one.beginWriting({ isUnchanged: false });
    place(one, "a");
    two.beginWriting({ isUnchanged: false });
    const second = place(two, "b");
    for (let i = 0; i < 250; i++) place(two, `c${i}`);
    const highest = two.documents.last;
    writeFileSync(
      join(path, "commit.json"),
      sealedText({ sessions: [], documents: [{ kind: "k", id: "b", ends: second }] }),
    );
    one.beginWriting({ isUnchanged: false });
    expect(one.documents.get("k", "b")).toBeUndefined();
    expect(place(one, "d")).toBeGreaterThan(highest);
  });

  test.each([
    [
      "is damaged",
      (path: string) => writeFileSync(path, readFileSync(path, "utf8").replace("check", "cheek")),
    ],
    ["is gone", (path: string) => rmSync(path)],
  ])("where last.json %s, all documents are gone over", async (_, spoil) => {
    const path = fresh();
    const store = await openDir(path);
    for (const id of ["a", "b", "c"]) await store.apply([], [made("k", id)]);
    await receipts(store, 0, 2);
    await store.close();
    spoil(join(path, "documents", "last.json"));
    // It has the highest number, which is not known any more.
    writeFileSync(join(path, "documents", "receipt", "r-1.json"), "{}");
    const again = await openDir(path);
    await again.apply([], [made("k", "d")]);
    expect((await again.documents.get("k", "d"))?.no).toBeGreaterThan(5);
    await again.close();
  });
});

describe("PORT-10: a document that was exchanged is seen, also where inodes are used again and times are coarse", () => {
  const branch = "0".repeat(16) as never;
  const pinning = (seq: number): FiledDoc => docOf("a", seq, [placeId(branch, seq)]);

  /** All files look alike: written in the same second, and with the same inode. */
  function makeAlike(): void {
    const second = BigInt(Math.floor(Date.now() / 1_000)) * 1_000_000_000n;
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
    const real = instead("lstatSync", (...args: unknown[]) => {
      const found = real(...args) as { ino: bigint; mtimeNs: bigint; ctimeNs: bigint } | undefined;
      if (found === undefined || typeof found.ino !== "bigint") return found;
      return Object.assign(Object.create(Object.getPrototypeOf(found)), found, {
        ino: 1n,
        ctimeNs: second,
        mtimeNs: second,
      });
    });
  }

  test.each(["writes", "reads"])("by a process that %s", async (does) => {
    const path = fresh();
    const [mine, other] = [new DocFiles(path, () => []), new DocFiles(path, () => [])];
    makeAlike();
    other.beginWriting({ isUnchanged: false });
    other.place({ kind: "k", id: "a", put: pinning(1) });
    if (does === "writes") mine.beginWriting({ isUnchanged: false });
    expect(mine.pins(branch)).toEqual([{ seq: 1, doc: 1 }]);
    other.place({ kind: "k", id: "a", ends: 1 });
    other.place({ kind: "k", id: "a", put: pinning(2) });
    if (does === "writes") mine.beginWriting({ isUnchanged: false });
    expect(mine.pins(branch)).toEqual([{ seq: 2, doc: 2 }]);
  });

  test("and one that has stood for a while is not read again", async () => {
    const path = fresh();
    const docs = new DocFiles(path, () => []);
    docs.beginWriting({ isUnchanged: false });
    docs.place({ kind: "k", id: "a", put: pinning(1) });
    await breathe();
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 60_000 });
    const opened: string[] = [];
    const real = instead("openSync", (...args: unknown[]) => {
      opened.push(String(args[0]));
      return real(...args);
    });
    for (let i = 0; i < 3; i++) {
      docs.beginWriting({ isUnchanged: false });
      expect(docs.pins(branch)).toEqual([{ seq: 1, doc: 1 }]);
    }
    expect(opened).toHaveLength(1);
  });
});
