/**
 * What only a store in a directory has: names, rows, a lock, ends that were cut short, an index,
 * and other processes beside it.
 */

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { hostname } from "node:os";
import { basename, join, resolve, sep } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { drop } from "../../../src/core/journal/drop-sections.js";
import { seal } from "../../../src/core/journal/seal-save.js";
import { open } from "../../../src/open.js";
import { sealedText, unsealed } from "../../../src/store/dir/files/checksummed-json.js";
import { blobPath, isName, nameOf, sessionPath } from "../../../src/store/dir/files/names.js";
import { SessionCatalog } from "../../../src/store/dir/index/session-catalog.js";
import { quickSeal } from "../../../src/store/dir/journal/quick-seal.js";
import { SaveOffsets } from "../../../src/store/dir/journal/save-offsets.js";
import {
  bytesBefore,
  knownSeal,
  rowsOf,
  saveText,
  sealOf,
  sectionText,
} from "../../../src/store/dir/journal/save-rows.js";
import { Lock } from "../../../src/store/dir/lock/lock.js";
import { openDir } from "../../../src/store/dir/open.js";
import type { SessionDoc } from "../../../src/store/dir/sessions/session-file.js";
import { thisMachine } from "../../../src/store/machine.js";
import type { NewSave } from "../../../src/store/port/changes.js";
import { oneBranch } from "../../../src/store/port/queries.js";
import { all, seqs } from "../../../src/testing/contract/case.js";
import { begin, digestOf, Fixture } from "../../../src/testing/contract/fixture.js";
import { start } from "../../support/children/child.mjs";
import { isThorough, runs } from "../../support/runs.js";
import { scratch } from "../../support/stores.js";

const root = scratch();
let count = 0;
const fresh = (): string => join(root, `store-${++count}`);
const ofSession = (path: string, id: string): string => join(path, sessionPath(id));
const journalOf = (path: string, f: Fixture): string =>
  join(ofSession(path, f.id), `${f.branch}.jsonl`);
const docOf = (path: string, id: string): SessionDoc =>
  unsealed(readFileSync(join(ofSession(path, id), "session.json"), "utf8")) as SessionDoc;

/** A store with one session of some saves, closed. */
async function made(path: string, saves = 3): Promise<Fixture> {
  const f = new Fixture("a");
  const store = await openDir(path);
  await store.apply([f.begin()]);
  for (let i = 0; i < saves; i++) await store.apply([f.save({ items: 1, state: 1, mark: true })]);
  await store.close();
  return f;
}

describe("names", () => {
  const ids = fc.oneof(
    fc.string(),
    fc.string({ unit: "grapheme", maxLength: 100 }),
    fc.constantFrom("..", ".", "con", "nul.txt", "a/b", "A", "a", "a~b", "é", "COM1", ""),
  );

  test("NAME-1, NAME-2: a name is one plain component, and two ids never share one, whatever their case", () => {
    fc.assert(
      fc.property(ids, ids, (a, b) => {
        for (const name of [nameOf(a), nameOf(b)]) {
          expect(name).toMatch(/^[a-z0-9_~.-]{1,100}$/);
          expect(name).not.toMatch(/^\.|\.$|^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/);
          expect(resolve("/store", name)).toBe(`${sep}store${sep}${name}`);
        }
        expect(sessionPath(a)).toBe(
          `sessions/${createHash("sha256").update(a).digest("hex").slice(0, 2)}/${nameOf(a)}`,
        );
        expect([isName(nameOf(a)), isName(`${nameOf(a)}~`)]).toEqual([true, false]);
        if (a !== b) expect(nameOf(a).toLowerCase()).not.toBe(nameOf(b).toLowerCase());
      }),
      { numRuns: 2_000 },
    );
  });

  test("NAME-3: what is a good name already is its own", () => {
    for (const id of ["order-42", "a", "v1.2_x", "-"]) expect(nameOf(id)).toBe(id);
    expect(nameOf("Order 42")).toMatch(/^order-42~[0-9a-f]{20}$/);
    expect(blobPath(digestOf("x"))).toMatch(/^blobs\/([0-9a-f]{2})\/\1[0-9a-f]{62}$/);
  });
});

describe("rows", () => {
  const texts = fc.array(
    fc.string({ unit: "grapheme" }).map((text) => JSON.stringify({ append: text })),
    { minLength: 1, maxLength: 5 },
  );
  const salts = fc.stringMatching(/^[A-Za-z0-9_-]{16}$/);

  test("ROWS-1: a section's text and its rows say the same, byte for byte", () => {
    fc.assert(
      fc.property(texts, salts, (records, salt) => {
        const text = `[${records.join(",\n")},\n"${salt}"]`;
        const rows = rowsOf(text);
        expect(rows).toEqual({ rows: records.join("\n"), salt });
        expect(sectionText(rows)).toBe(text);
      }),
    );
  });

  test("ROWS-2, ROWS-3: a seal says how much stands before it, and no changed bit of it is believed", () => {
    fc.assert(
      fc.property(fc.option(texts), fc.option(texts), salts, fc.nat(), (items, state, salt, at) => {
        const { save } = seal({
          branch: "0123456789abcdef" as never,
          after: 0,
          at,
          prior: 0,
          base: 0,
          prev: digestOf("x"),
          items: items ?? [],
          nMessages: 0,
          state: state ?? [],
          mark: '{"checkpoint":{}}',
          salt: () => salt,
        });
        const bytes = Buffer.from(saveText(save, [digestOf("blob")], { with: 7 }).text);
        const sealAt = bytes.lastIndexOf("\n", bytes.length - 2) + 1;
        const row = bytes.subarray(sealAt, -1);
        const found = sealOf(row);
        expect(found).toMatchObject({ seq: save.seq, refs: [digestOf("blob")], with: 7 });
        const before = found && bytesBefore(found);
        expect((before?.items ?? 0) + (before?.state ?? 0) + (before?.mark ?? 0)).toBe(sealAt);
        // The quick way reads the same, whatever the seal has to say.
        for (const waits of [{}, { with: 7 }, { more: true } as const])
          for (const refs of [[], [digestOf("blob")]]) {
            const [other = ""] = saveText(save, refs, waits).text.trimEnd().split("\n").slice(-1);
            expect(knownSeal(other)).toEqual(sealOf(Buffer.from(other)));
            if (refs.length === 0)
              expect(quickSeal(other, 8, other.length - 18)).toEqual(knownSeal(other));
          }
        const dropped = saveText({ ...save, items: null, note: "a note" }, [])
          .text.trimEnd()
          .split("\n")
          .at(-1) as string;
        expect(knownSeal(dropped)).toEqual(sealOf(Buffer.from(dropped)));
        const bit = at % (row.length * 8);
        const flipped = Buffer.from(row);
        flipped[bit >> 3] = (flipped[bit >> 3] as number) ^ (1 << (bit & 7));
        expect(sealOf(flipped)).toBeUndefined();
      }),
    );
  });

  test("places of saves grow at both ends", () => {
    fc.assert(
      fc.property(fc.array(fc.boolean(), { maxLength: 200 }), (behind) => {
        const spans = new SaveOffsets();
        const expected: number[] = [];
        let [low, high] = [500, 501];
        for (const isBehind of behind) {
          const seq = isBehind ? high++ : low--;
          const span = { seq, start: 0, state: 0, mark: 0, seal: 0, end: 1 };
          if (isBehind) {
            spans.push(span);
            expected.push(seq);
          } else {
            spans.unshift(span);
            expected.unshift(seq);
          }
        }
        expect(Array.from({ length: spans.length }, (_, i) => spans.at(i).seq)).toEqual(expected);
        for (const [i, seq] of expected.entries()) expect(spans.indexOf(seq)).toBe(i);
      }),
    );
  });
});

describe("the directory", () => {
  test("a person finds what they look for, and only they", async () => {
    const path = fresh();
    const hold = await open(`dir:${path}`);
    const session = await hold.session("order-42", { agent: "clerk" });
    session.append({ role: "user", content: "hello" });
    session.set("phase", "search");
    await session.checkpoint();
    await session.close();
    await hold.close();
    expect(JSON.parse(readFileSync(join(path, "holdfast.json"), "utf8"))).toMatchObject({
      format: 1,
    });
    const files = readdirSync(ofSession(path, "order-42"));
    const [journal = ""] = files.filter((name) => name.endsWith(".jsonl"));
    expect(files.sort()).toEqual([journal, "session.json"].sort());
    const rows = readFileSync(join(ofSession(path, "order-42"), journal), "utf8")
      .trim()
      .split("\n")
      .map((row) => JSON.parse(row));
    expect(rows.map((row) => Object.keys(row)[0])).toEqual([
      "branch",
      "append",
      "set",
      "checkpoint",
      "seal",
    ]);
    expect(rows[1].append).toEqual({ role: "user", content: "hello" });
    for (const file of [
      "holdfast.json",
      "changes.jsonl",
      join(sessionPath("order-42"), "session.json"),
      join(sessionPath("order-42"), journal),
    ])
      expect(statSync(join(path, file)).mode & 0o777, file).toBe(0o600);
    expect(statSync(ofSession(path, "order-42")).mode & 0o777).toBe(0o700);
    expect(readFileSync(join(path, ".gitignore"), "utf8")).toContain("changes.jsonl");
  });

  test("one that is not ours is left untouched", async () => {
    const path = fresh();
    mkdirSync(path);
    writeFileSync(join(path, "thesis.txt"), "do not lose");
    await expect(openDir(path)).rejects.toMatchObject({ code: "NOT_A_STORE" });
    expect(readdirSync(path)).toEqual(["thesis.txt"]);
    await expect(openDir(join(path, "thesis.txt"))).rejects.toMatchObject({ code: "NOT_A_STORE" });
  });

  test("a newer format is left untouched, and damage to holdfast.json is no other store", async () => {
    const path = fresh();
    await made(path, 1);
    const file = join(path, "holdfast.json");
    const text = readFileSync(file, "utf8");
    writeFileSync(file, text.replace('"format":1', '"format":2'));
    await expect(openDir(path)).rejects.toMatchObject({ code: "NEWER_FORMAT" });
    writeFileSync(file, "{}");
    await expect(openDir(path)).rejects.toMatchObject({ code: "NOT_A_STORE" });
  });

  test("links and FIFOs in the place of our files are neither followed nor waited at", async () => {
    const path = fresh();
    const f = await made(path);
    const journal = journalOf(path, f);
    const aside = join(root, "elsewhere.jsonl");
    renameSync(journal, aside);
    for (const put of [
      () => symlinkSync(aside, journal),
      () => spawnSync("mkfifo", [journal]),
      () => mkdirSync(journal),
    ]) {
      put();
      const store = await openDir(path);
      await expect(store.saves(f.branch, all)).rejects.toMatchObject({ code: "CORRUPT" });
      await expect(store.apply([f.peek({ items: 1 })])).rejects.toMatchObject({ code: "CORRUPT" });
      await store.close();
      rmSync(journal, { recursive: true });
    }
    renameSync(aside, journal);
    const row = join(ofSession(path, "a"), "session.json");
    renameSync(row, aside);
    symlinkSync(aside, row);
    const store = await openDir(path);
    expect((await store.sessions({ limit: 10 })).map(({ head }) => head.text)).toEqual([
      "\0damaged",
    ]);
    await store.close();
    rmSync(row);
    renameSync(aside, row);
    rmSync(join(path, "holdfast.json"));
    spawnSync("mkfifo", [join(path, "holdfast.json")]);
    await expect(openDir(path)).rejects.toMatchObject({ code: "CORRUPT" });
  });

  test("foreign files are nobody's business", async () => {
    const path = fresh();
    const f = await made(path);
    for (const place of [
      "notes.txt",
      "sessions/README",
      "sessions/zz/x",
      `${sessionPath("a")}/todo.md`,
      `${sessionPath("a")}/x.jsonl`,
      "blobs/ab/thumbs.db",
    ]) {
      mkdirSync(join(path, place, ".."), { recursive: true });
      writeFileSync(join(path, place), "mine");
    }
    const store = await openDir(path);
    expect(seqs(await store.saves(f.branch, all))).toEqual(seqs(f.saves));
    await store.apply([f.save({ items: 1, blob: "body" })]);
    expect(await store.check()).toEqual([]);
    expect((await store.reclaim.sweep(10, false)).count).toBe(0);
    expect((await store.info("counts")).counts?.sessions).toBe(1);
    await store.close();
  });
});

describe("the lock", () => {
  const { self } = thisMachine();
  const machine = existsSync("/etc/machine-id")
    ? readFileSync("/etc/machine-id", "utf8").trim()
    : "";
  const gone = spawnSync(process.execPath, ["-e", "0"]).pid;
  const holder = { owner: self, host: hostname(), machine };
  const locksIn = (path: string): string[] =>
    readdirSync(path).filter((name) => /^lock-\d+\.json$/.test(name));

  test.each([
    ["of a process that has ended", { ...holder, owner: { ...self, pid: gone } }, true],
    ["of another boot of this machine", { ...holder, owner: { ...self, boot: "another" } }, true],
    [
      "whose pid is another process's by now",
      { ...holder, owner: { ...self, started: "1" } },
      true,
    ],
    ["of a process that lives", holder, false],
    ["of another host", { ...holder, host: "elsewhere", owner: { ...self, pid: gone } }, false],
    [
      "of another machine of the same name",
      { ...holder, machine: "another", owner: { ...self, boot: "another" } },
      false,
    ],
    ["in another container", { ...holder, owner: { ...self, space: "pid:[1]", pid: gone } }, false],
    ["that says nothing", "half a l", false],
  ])("LOCK-3: one %s", async (_, content, isFree) => {
    const path = fresh();
    const f = await made(path);
    for (const name of readdirSync(path).filter((file) => file.startsWith("lock-")))
      rmSync(join(path, name));
    writeFileSync(
      join(path, "lock-7.json"),
      typeof content === "string" ? content : JSON.stringify(content),
    );
    const store = await openDir(path, { busyMs: 50 });
    expect(seqs(await store.saves(f.branch, all))).toEqual(seqs(f.saves));
    const applied = store.apply([f.peek({ items: 1 })]);
    if (isFree) expect(await applied).toEqual({ ok: true });
    else await expect(applied).rejects.toMatchObject({ code: "BUSY", retryable: true });
    await store.close();
    expect(locksIn(path)).toEqual([isFree ? "lock-8.json" : "lock-7.json"]);
  });

  test("LOCK-2: one that was released is free, also where a person has removed its first name, and its number is not used again", async () => {
    const path = fresh();
    const f = await made(path);
    expect(locksIn(path)).toEqual(["lock-1.json"]);
    rmSync(join(path, "lock-1.json"));
    const store = await openDir(path, { busyMs: 0 });
    expect(await store.apply([f.save({ items: 1 })])).toEqual({ ok: true });
    await store.close();
    expect(readdirSync(path).filter((name) => name.startsWith("lock-"))).toEqual([
      "lock-2.free.json",
      "lock-2.json",
    ]);
  });

  test("a second writer in one process has to wait too, and is told for whom", async () => {
    const path = fresh();
    const f = await made(path);
    // A holder that never looks whether others wait, as a process that is stopped.
    const holding = new Lock(path);
    await holding.take(0);
    const store = await openDir(path, { busyMs: 30 });
    await expect(store.apply([f.peek({ items: 1 })])).rejects.toMatchObject({
      code: "BUSY",
      details: { holder: expect.stringContaining(`process ${process.pid}`) },
    });
    expect(seqs(await store.saves(f.branch, all))).toEqual(seqs(f.saves));
    holding.release();
    expect(await store.apply([f.save({ items: 1 })])).toEqual({ ok: true });
    await store.close();
  });

  test("LOCK-1: of processes that race for a dead holder's lock exactly one wins", async () => {
    for (let round = 0; round < runs(1, 5); round++) {
      const path = fresh();
      mkdirSync(path);
      writeFileSync(
        join(path, "lock-3.json"),
        JSON.stringify({ ...holder, owner: { ...self, pid: gone } }),
      );
      const children = Array.from({ length: 4 }, () =>
        start(new URL("../../support/children/dir-child.mjs", import.meta.url)),
      );
      for (const child of children) child.tell({ do: "race", path, busyMs: 100 });
      await Promise.all(children.map((child) => child.heard((line) => line["ready"] === true)));
      for (const child of children) child.tell({ go: true });
      const answers = await Promise.all(
        children.map((child) => child.heard((line) => line["won"] !== undefined)),
      );
      await Promise.all(children.map((child) => child.end()));
      expect(answers.map((line) => line["won"]).filter(Boolean)).toHaveLength(1);
      expect(locksIn(path)).toEqual(["lock-4.json"]);
      // All are dead now.
      const lock = new Lock(path);
      await lock.take(0);
      expect(lock.number).toBe(5);
      lock.release();
    }
  });

  test("a killed writer's store is taken over at once", async () => {
    const path = fresh();
    const f = new Fixture("a");
    const child = start(new URL("../../support/children/dir-child.mjs", import.meta.url));
    child.tell({ do: "hold", path, changes: [[f.begin()], [f.save({ items: 1, mark: true })]] });
    await child.heard((line) => line["held"] !== undefined);
    const store = await openDir(path, { busyMs: 20 });
    await expect(store.apply([f.peek({ items: 1 })])).rejects.toMatchObject({ code: "BUSY" });
    await child.end();
    expect(await store.apply([f.save({ items: 1 })])).toEqual({ ok: true });
    expect(seqs(await store.saves(f.branch, all))).toEqual(seqs(f.saves));
    await store.close();
  });
});

describe("ends that are not whole", () => {
  test("D2: a journal cut short at any length loses at most its last save, which is set aside and reported", async () => {
    const path = fresh();
    const f = await made(path, 2);
    rmSync(join(path, "anchors"));
    const journal = journalOf(path, f);
    const whole = readFileSync(journal);
    const ends = [...whole.toString("latin1").matchAll(/"sum":"[0-9a-f]{8}"\}\n/g)].map(
      (found) => found.index + found[0].length,
    );
    const header = whole.indexOf("\n") + 1;
    const step = isThorough ? 3 : 29;
    for (let length = 0; length < whole.length; length += step) {
      writeFileSync(journal, whole.subarray(0, length));
      for (const name of readdirSync(ofSession(path, "a")))
        if (name.includes(".tail-")) rmSync(join(ofSession(path, "a"), name));
      const kept = ends.filter((end) => end <= length).length;
      const end = ends[kept - 1] ?? 0;
      const reader = await openDir(path);
      expect(seqs(await reader.saves(f.branch, all)), `${length}`).toEqual(
        seqs(f.saves.slice(0, kept)),
      );
      const stray = length > end && !(kept === 0 && length === header);
      expect(await reader.check(), `${length}`).toHaveLength(stray ? 1 : 0);
      // The next save works, and what was there is not lost.
      const again: NewSave = { save: f.saves[kept] as never, refs: [], blobs: [] };
      expect(await reader.apply([{ session: "a", when: { epoch: 1 }, saves: [again] }])).toEqual({
        ok: true,
      });
      expect(seqs(await reader.saves(f.branch, all)), `${length}`).toEqual(
        seqs(f.saves.slice(0, kept + 1)),
      );
      await reader.close();
      rmSync(join(path, "anchors"));
      const aside = join(ofSession(path, "a"), `${f.branch}.tail-1`);
      expect(existsSync(aside), `${length}`).toBe(stray);
      if (stray) expect(readFileSync(aside)).toEqual(whole.subarray(end, length));
      const later = await openDir(path);
      expect(await later.check()).toHaveLength(stray ? 1 : 0);
      await later.close();
    }
  });

  test("D3: where an anchor knows more, it is damage: nothing is cut, and nothing is written", async () => {
    const path = fresh();
    const f = await made(path, 3);
    const journal = journalOf(path, f);
    truncateSync(journal, statSync(journal).size - 3);
    const before = readFileSync(journal);
    const store = await openDir(path);
    await expect(
      store.apply([
        {
          session: "a",
          when: { epoch: 1 },
          saves: [{ save: f.saves[2] as never, refs: [], blobs: [] }],
        },
      ]),
    ).rejects.toMatchObject({
      code: "CORRUPT",
      details: { branch: f.branch },
    });
    await store.close();
    expect(readFileSync(journal)).toEqual(before);
    expect(readdirSync(ofSession(path, "a")).some((name) => name.includes(".tail-"))).toBe(false);
  });

  test("pages that a power cut has left empty are no save", async () => {
    const path = fresh();
    const f = await made(path, 3);
    rmSync(join(path, "anchors"));
    const journal = journalOf(path, f);
    const bytes = readFileSync(journal);
    const last = bytes.lastIndexOf('{"append"');
    bytes.fill(0, last, last + 20);
    writeFileSync(journal, bytes);
    const store = await openDir(path);
    expect(seqs(await store.saves(f.branch, all))).toEqual(seqs(f.saves.slice(0, 2)));
    expect(await store.check()).toHaveLength(1);
    await store.close();
  });

  test("damage in the middle hides nothing behind it", async () => {
    const path = fresh();
    const f = await made(path, 5);
    const journal = journalOf(path, f);
    const bytes = readFileSync(journal);
    const sealed = [...bytes.toString("latin1").matchAll(/\{"seal"/g)].map(({ index }) => index);
    bytes[(sealed[2] as number) + 20] = 0x7e;
    writeFileSync(journal, bytes);
    const store = await openDir(path);
    const [one, two, , four, five] = seqs(f.saves);
    expect(seqs(await store.saves(f.branch, all))).toEqual([one, two, four, five]);
    expect(seqs(await store.saves(f.branch, { ...all, newestFirst: true, limit: 3 }))).toEqual([
      five,
      four,
      two,
    ]);
    await expect(store.reclaim.sweep(10, false)).rejects.toMatchObject({ code: "CORRUPT" });
    expect(await store.apply([f.save({ items: 1 })])).toEqual({ ok: true });
    await store.close();
  });

  test("VIEW-2: saves of a change that was never made do not count, and do not come to count later", async () => {
    const path = fresh();
    const f = await made(path, 1);
    const journal = journalOf(path, f);
    const { version } = docOf(path, "a");
    const never = f.peek({ items: 1, text: "never" }).saves?.[0] as NewSave;
    appendFileSync(journal, saveText(never.save, [], { with: version + 1 }).text);
    const reader = await openDir(path);
    expect(seqs(await reader.saves(f.branch, all))).toEqual(seqs(f.saves));
    expect(await reader.check()).toEqual([]);
    // The file reaches that version with another change.
    await reader.apply([
      { session: "a", when: { epoch: 1 }, label: { ...begin("a").label, text: "other" } },
    ]);
    expect(docOf(path, "a").version).toBe(version + 1);
    expect(seqs(await reader.saves(f.branch, all))).toEqual(seqs(f.saves));
    expect(await reader.apply([f.save({ items: 1 })])).toEqual({ ok: true });
    await reader.close();
    const later = await openDir(path);
    expect(await later.saves(f.branch, all)).toEqual(f.saves);
    await later.close();
  });

  test("VIEW-2: saves that came together count together", async () => {
    const path = fresh();
    const f = await made(path, 1);
    const journal = journalOf(path, f);
    const before = statSync(journal).size;
    const { version } = docOf(path, "a");
    const together = Array.from(
      { length: 3 },
      () => f.save({ items: 1, mark: true }).saves?.[0] as NewSave,
    );
    const store = await openDir(path);
    expect(await store.apply([{ session: "a", when: { epoch: 1 }, saves: together }])).toEqual({
      ok: true,
    });
    expect(await store.saves(f.branch, all)).toEqual(f.saves);
    await store.close();
    expect(docOf(path, "a").version, "no other commit point").toBe(version);
    rmSync(join(path, "anchors"));
    const whole = readFileSync(journal);
    for (let length = before; length < whole.length; length += isThorough ? 1 : 10) {
      writeFileSync(journal, whole.subarray(0, length));
      const cut = await openDir(path);
      expect(seqs(await cut.saves(f.branch, all)), `${length}`).toEqual(seqs(f.saves.slice(0, 1)));
      if ((length - before) % 10 === 0) {
        expect(await cut.apply([{ session: "a", when: { epoch: 1 }, saves: together }])).toEqual({
          ok: true,
        });
        expect(await cut.saves(f.branch, all), `${length}`).toEqual(f.saves);
      }
      await cut.close();
      rmSync(join(path, "anchors"), { force: true });
    }
  });

  test("SESSIONFILE-2: a change of several sessions that was begun is finished by the next writer, and seen before that", async () => {
    const path = fresh();
    const store = await openDir(path);
    await store.apply([begin("a"), begin("b")]);
    await store.close();
    const changed = ["a", "b"].map((id) => {
      const { check: _check, ...doc } = docOf(path, id) as SessionDoc & { check?: string };
      return { ...doc, version: doc.version + 1, head: { ...doc.head, status: "completed" } };
    });
    writeFileSync(join(path, "commit.json"), sealedText({ sessions: changed }));
    const reader = await openDir(path);
    expect((await reader.session("a")).row?.head.status).toBe("completed");
    expect(existsSync(join(path, "commit.json"))).toBe(true);
    expect(
      await reader.apply([
        { session: "a", when: { epoch: 1 }, lease: { epoch: 2, until: 0, text: "x" } },
      ]),
    ).toEqual({ ok: true });
    expect(existsSync(join(path, "commit.json"))).toBe(false);
    expect(docOf(path, "b").head?.status).toBe("completed");
    await reader.close();
  });
});

describe("long lines", () => {
  /** How often the event loop came round while something was waited for. */
  async function turnsDuring(run: () => Promise<unknown>): Promise<number> {
    let turns = 0;
    let isOver = false;
    const count = () => {
      turns += 1;
      if (!isOver) setImmediate(count);
    };
    setImmediate(count);
    await run();
    isOver = true;
    return turns;
  }

  test("others have their turn while the beginning of one is looked for, and blobs are", async () => {
    const path = fresh();
    const f = new Fixture("a");
    const store = await openDir(path);
    await store.apply([f.begin()]);
    const saves = Array.from(
      { length: 1_000 },
      () => f.save({ items: 1, mark: true }).saves?.[0] as NewSave,
    );
    await store.apply([{ session: "a", when: { epoch: 1 }, saves }]);
    await store.close();
    const again = await openDir(path);
    const first = { ...all, to: 1, limit: 1 };
    expect(await turnsDuring(() => again.saves(f.branch, first))).toBeGreaterThanOrEqual(4);
    expect(await turnsDuring(() => again.saves(f.branch, first)), "once").toBeLessThan(4);
    expect(await turnsDuring(() => again.reclaim.sweep(10, true))).toBeGreaterThanOrEqual(4);
    const replacements = saves.map(({ save }) => ({
      save: drop(save, { items: false, state: false, mark: true, prior: 0 }),
      refs: [],
      was: [save],
    }));
    expect(await again.reclaim.replace(f.branch, replacements, { branch: 1, doc: 0 })).toBe(true);
    expect(await again.saves(f.branch, all)).toEqual(replacements.map(({ save }) => save));
    // Refused whole where one is not as it was read any more.
    const stale = [
      ...replacements.slice(0, 999).map(({ save }) => ({ save, refs: [], was: [save] })),
      replacements[999] as (typeof replacements)[0],
    ];
    expect(await again.reclaim.replace(f.branch, stale, { branch: 1, doc: 0 })).toBe(false);
    expect(await again.saves(f.branch, all)).toEqual(replacements.map(({ save }) => save));
    expect(readdirSync(ofSession(path, "a")).filter((name) => name.endsWith(".draft"))).toEqual([]);
    await again.close();
  });

  if (isThorough)
    test("more of them than are kept open are read from their beginning, side by side", async () => {
      const path = fresh();
      const lines = Array.from({ length: 260 }, (_, i) => new Fixture(`s${i}`));
      const store = await openDir(path);
      await store.apply(lines.map((f) => f.begin()));
      for (const f of lines) {
        const saves = Array.from(
          { length: 205 },
          () => f.save({ mark: true }).saves?.[0] as NewSave,
        );
        await store.apply([{ session: f.id, when: { epoch: 1 }, saves }]);
      }
      await store.close();
      const again = await openDir(path);
      const firsts = Promise.all(
        lines.map((f) => again.saves(f.branch, { ...all, to: 1, limit: 1 })),
      );
      // Others look at all of it meanwhile.
      const counted = again.info("counts");
      expect((await firsts).map((found) => found.length)).toEqual(lines.map(() => 1));
      expect((await counted).counts?.checkpoints).toBe(260 * 205);
      await again.close();
    });
});

describe("what sessions there are", () => {
  test("sessions that come and go in any order are listed once each, the highest number first", () => {
    const row = fc.record({
      id: fc.constantFrom("a", "b", "c"),
      no: fc.integer({ min: 0, max: 4 }),
      isThere: fc.boolean(),
    });
    const rest = {
      agent: null,
      due: null,
      archived: false,
      tags: [],
      branches: [],
      lastBranch: 0,
      cut: [],
    };
    fc.assert(
      fc.property(fc.array(row, { maxLength: 12 }), (rows) => {
        const catalogue = new SessionCatalog();
        const there = new Map<string, number>();
        for (const { id, no, isThere } of rows) {
          catalogue.set({ ...rest, id, no, status: isThere ? "in-progress" : null });
          if (isThere) there.set(id, no);
          else there.delete(id);
          const listed = [...catalogue.sessions({ limit: 10 })];
          expect(listed.map((entry) => entry.id).toSorted()).toEqual([...there.keys()].toSorted());
          expect(listed.map((entry) => entry.no)).toEqual(
            [...there.values()].toSorted((a, b) => b - a),
          );
        }
      }),
      { seed: 9, numRuns: 500 },
    );
  });

  const ids = async (path: string): Promise<string[]> => {
    const store = await openDir(path);
    const rows = await store.sessions({ limit: 100 });
    await store.close();
    return rows.map(({ id }) => id);
  };
  const expected = Array.from({ length: 12 }, (_, i) => `s${i}`).toReversed();
  const many = async (): Promise<string> => {
    const path = fresh();
    const store = await openDir(path);
    for (const id of expected.toReversed()) await store.apply([begin(id)]);
    await store.apply([begin("gone")]);
    await store.apply([{ session: "gone", when: {}, remove: true }]);
    await store.close();
    return path;
  };

  test("CATALOG-2: sessions are found whatever stands in the log", async () => {
    const path = await many();
    const log = join(path, "changes.jsonl");
    const other = await many();
    for (const content of [
      undefined,
      readFileSync(log).subarray(0, -5),
      readFileSync(join(other, "changes.jsonl")),
      Buffer.from("x\n"),
      Buffer.from(`{"made":"0123456789abcdef"}\n7\n`),
    ]) {
      rmSync(log);
      if (content !== undefined) writeFileSync(log, content);
      expect(await ids(path)).toEqual(expected);
      // A writer and a reader go on from there.
      const [reader, store] = [await openDir(path), await openDir(path)];
      await store.apply([begin("new")]);
      expect((await reader.sessions({ limit: 1 })).map(({ id }) => id)).toEqual(["new"]);
      await store.apply([{ session: "new", when: {}, remove: true }]);
      expect((await reader.sessions({ limit: 1 })).map(({ id }) => id)).toEqual(["s11"]);
      expect(await store.check()).toEqual([]);
      await store.close();
      await reader.close();
    }
  });

  test("CATALOG-1: a row whose change comes later, or never, misleads no reader", async () => {
    const path = await many();
    const reader = await openDir(path);
    const listed = async () => (await reader.sessions({ limit: 100 })).map(({ id }) => id);
    expect(await listed()).toEqual(expected);
    // As a process leaves it that is killed before it puts the file in its place.
    appendFileSync(join(path, "changes.jsonl"), '["new"]\n');
    expect(await listed()).toEqual(expected);
    const elsewhere = await openDir(fresh());
    const f = new Fixture("new");
    await elsewhere.apply([f.begin()]);
    const from = join((await elsewhere.info()).about.place, sessionPath("new"));
    await elsewhere.close();
    cpSync(from, ofSession(path, "new"), { recursive: true });
    expect(await listed()).toContain("new");
    await reader.close();
  });

  test("a session whose file is damaged is listed, and hides no other", async () => {
    const path = await many();
    const store = await openDir(path);
    const f = new Fixture("A session");
    await store.apply([f.begin()]);
    await store.apply([f.save({ items: 1, mark: true })]);
    await store.close();
    writeFileSync(join(ofSession(path, "A session"), "session.json"), "{}");
    expect(await ids(path)).toEqual(["A session", ...expected]);
    const hold = await open(`dir:${path}`);
    const list = await hold.sessions.list({ limit: 100 });
    expect(list).toMatchObject({
      damaged: expect.arrayContaining([expect.objectContaining({ id: "A session" })]),
    });
    // Nothing is known of it, so any list may be missing it.
    for (const filter of [{ agent: "x" }, { tag: "x" }, { archived: true }])
      expect(await hold.sessions.list(filter)).toMatchObject({
        items: [],
        damaged: [{ id: "A session" }],
      });
    await expect(hold.session("A session")).rejects.toMatchObject({ code: "CORRUPT" });
    await hold.close();
  });

  test("the log is begun anew when it is long, and readers follow", async () => {
    const path = await many();
    const reader = await openDir(path);
    appendFileSync(join(path, "changes.jsonl"), '["s1"]\n'.repeat(200_000));
    const store = await openDir(path);
    await store.apply([begin("new")]);
    expect(statSync(join(path, "changes.jsonl")).size).toBeLessThan(100);
    expect((await reader.sessions({ limit: 1 })).map(({ id }) => id)).toEqual(["new"]);
    await store.close();
    await reader.close();
  });
});

describe("other processes", () => {
  test("PORT-5: a reader beside a writer sees whole saves only, and all of them in the end", async () => {
    const path = fresh();
    const f = new Fixture("a");
    const store = await openDir(path);
    await store.apply([f.begin()]);
    const child = start(new URL("../../support/children/dir-child.mjs", import.meta.url));
    child.tell({ do: "follow", path, branch: f.branch, until: 300 });
    await child.heard((line) => line["ready"] === true);
    for (let i = 0; i < 300; i++)
      await store.apply([f.save({ items: 1, mark: true, text: "x".repeat((i * 37) % 5_000) })]);
    expect(await child.heard((line) => line["seen"] !== undefined)).toMatchObject({
      wrong: [],
      seen: 300,
    });
    await child.end();
    await store.close();
  });

  test("a reader follows sessions, lines, cuts and prunes as they come", async () => {
    const path = fresh();
    const writer = await openDir(path);
    const reader = await openDir(path);
    expect(await reader.sessions({ limit: 10 })).toEqual([]);
    const f = new Fixture("a");
    await writer.apply([f.begin({ agent: "x" })]);
    for (let i = 0; i < 4; i++) await writer.apply([f.save({ items: 1, mark: true })]);
    expect(await reader.saves(f.branch, all)).toEqual(f.saves);
    expect((await reader.sessions({ agent: "x", limit: 10 })).map(({ id }) => id)).toEqual(["a"]);
    await writer.reclaim.replace(
      f.branch,
      [{ save: f.gapOf(0, 1), refs: [], was: f.saves.slice(0, 2) }],
      {
        branch: 99,
        doc: 99,
      },
    );
    expect(seqs(await reader.saves(f.branch, all))).toEqual(seqs(f.saves.slice(1)));
    await writer.apply([{ session: "a", when: {}, remove: true }]);
    expect(await reader.session("a")).toEqual({ row: undefined, buried: 1 });
    await writer.reclaim.cut(f.branch, -1, 1, false);
    expect(seqs(await reader.saves(f.branch, all))).toEqual(seqs(f.saves.slice(1, 3)));
    await writer.reclaim.cut(f.branch, -1, 100, false);
    expect((await reader.branches(oneBranch(f.branch)))[0]).toBeUndefined();
    expect(existsSync(journalOf(path, f))).toBe(false);
    await writer.close();
    await reader.close();
  });

  test("POST-1: mail is posted from another process, without the lock, and taken in once", async () => {
    const path = fresh();
    const store = await openDir(path);
    await store.apply([begin("a")]);
    const woken = new Promise<void>((wake) => {
      const stop = store.watch("a", () => {
        stop();
        wake();
      });
    });
    const child = start(new URL("../../support/children/dir-child.mjs", import.meta.url));
    const mail = [
      { id: "One", text: "1", due: 0 },
      { id: "two", text: "2", due: 0 },
      { id: "One", text: "1", due: 0 },
      { id: "One", text: "other", due: 0 },
    ];
    child.tell({ do: "post", path, session: "a", mail });
    expect(await child.heard((line) => line["answers"] !== undefined)).toMatchObject({
      answers: ["posted", "posted", "known", "conflict"],
    });
    await child.closed;
    await woken;
    expect(await store.inbox.list("a", { dueBy: 0, limit: 10 })).toEqual(mail.slice(0, 2));
    await store.apply([{ session: "a", when: {}, drained: ["One"] }]);
    expect(await store.inbox.list("a", { dueBy: 0, limit: 10 })).toEqual([mail[1]]);
    expect(
      readdirSync(join(ofSession(path, "a"), "inbox", "done")).map(
        (name) => basename(name).split("~")[0],
      ),
    ).toEqual(["one"]);
    // POST-3: a later session of the same name has a box of its own.
    await store.apply([{ session: "a", when: {}, remove: true }]);
    await store.apply([begin("a", { epoch: 2 })]);
    expect(await store.inbox.list("a", { dueBy: 0, limit: 10 })).toEqual([]);
    expect(await store.inbox.post("a", { id: "One", text: "new", due: 0 })).toBe("posted");
    await store.close();
  });
});

test("a line that was brought in for one session can be claimed by another, and is let go with it", async () => {
  const path = fresh();
  const store = await openDir(path);
  const f = new Fixture("a");
  const first = f.save({ items: 1, mark: true }).saves ?? [];
  await store.apply([
    { session: "a", when: { absent: true }, loose: f.begin().branch, saves: first },
  ]);
  const { branch: _line, ...rest } = begin("b");
  expect(
    await store.apply([{ ...rest, head: { ...rest.head, branch: f.branch }, claims: [f.branch] }]),
  ).toEqual({ ok: true });
  expect(
    await store.apply([
      { session: "b", when: { epoch: 1 }, saves: f.save({ items: 1 }).saves ?? [] },
    ]),
  ).toEqual({ ok: true });
  expect((await store.branches({ kind: "session", session: "b" })).map(({ id }) => id)).toEqual([
    f.branch,
  ]);
  expect((await store.branches({ kind: "session", session: "a" })).length).toBe(0);
  await store.close();
  const again = await openDir(path);
  expect((await again.session("b", "end"))?.end?.seq).toBe(3);
  await again.apply([{ session: "b", when: {}, remove: true }]);
  expect((await again.branches(oneBranch(f.branch)))[0]?.owned).toBe(false);
  await again.close();
});

describe("sessions that are brought in", () => {
  test("stand in a directory of their own, like others", async () => {
    const source = await open("memory:");
    const session = await source.session("moved here");
    for (let i = 0; i < 3; i++) {
      session.append({ role: "user", content: `message ${i}` });
      await session.checkpoint();
    }
    await session.rewind((await source.checkpoints.list("moved here")).items[1]?.id as string);
    await session.close();
    const path = fresh();
    const target = await open(`dir:${path}`);
    expect((await target.import(source.export())).sessions).toEqual([
      { id: "moved here", outcome: "imported" },
    ]);
    await target.close();
    await source.close();
    const { branches: lines } = docOf(path, "moved here");
    expect(lines).toHaveLength(2);
    const files = readdirSync(ofSession(path, "moved here"));
    // The second has no save yet, and so no journal.
    expect(files).toContain(`${lines[0]?.id}.jsonl`);
    expect(
      readdirSync(join(path, "sessions")).flatMap((shard) =>
        readdirSync(join(path, "sessions", shard)),
      ),
    ).toEqual([nameOf("moved here")]);
  });
});

describe("what was left behind, and what stands in the way", () => {
  test("a journal that a killed import left under the name of a line does not count for the line when it comes again", async () => {
    const path = fresh();
    const [one, two] = [new Fixture("a"), new Fixture("a")];
    const absent = { session: "a", when: { absent: true } } as const;
    let store = await openDir(path);
    await store.apply([
      {
        ...absent,
        loose: one.begin().branch,
        saves: one.save({ items: 1, mark: true }).saves ?? [],
      },
    ]);
    await store.close();
    const before = readFileSync(join(ofSession(path, "a"), "session.json"));
    const saves = two.save({ items: 1, mark: true }).saves ?? [];
    store = await openDir(path);
    await store.apply([{ ...absent, loose: two.begin().branch, saves }]);
    await store.close();
    // As if it had been killed between the journal and the session's file; and then that file goes
    // on without it.
    writeFileSync(join(ofSession(path, "a"), "session.json"), before);
    rmSync(join(path, "changes.jsonl"));
    store = await openDir(path);
    expect((await store.reclaim.cut(one.branch, -1, 10, false)).count).toBe(1);
    expect(await store.apply([{ ...absent, loose: two.begin().branch, saves }])).toEqual({
      ok: true,
    });
    expect(await store.apply([{ ...absent, saves: two.save({ items: 1 }).saves ?? [] }])).toEqual({
      ok: true,
    });
    expect(seqs(await store.saves(two.branch, all))).toEqual([2, 3]);
    await store.close();
    store = await openDir(path);
    expect(seqs(await store.saves(two.branch, all))).toEqual([2, 3]);
    await store.close();
  });

  test("an anchor of a line that was cut does not stand in the way when it is brought in again, and cut short", async () => {
    const path = fresh();
    const f = new Fixture("a");
    let store = await openDir(path);
    await store.apply([f.begin()]);
    for (let i = 0; i < 4; i++) await store.apply([f.save({ items: 1, mark: true })]);
    await store.close();
    store = await openDir(path);
    await store.apply([{ session: "a", when: {}, remove: true }]);
    await store.reclaim.cut(f.branch, -1, 10, false);
    const absent = { session: "b", when: { absent: true } } as const;
    const again = new Fixture("b", { branch: f.branch });
    await store.apply([
      {
        ...absent,
        loose: again.begin().branch,
        saves: again.save({ items: 1, mark: true }).saves ?? [],
      },
    ]);
    await store.close();
    appendFileSync(journalOf(path, again), '{"append":');
    store = await openDir(path);
    expect(
      await store.apply([{ ...absent, saves: again.save({ items: 1, mark: true }).saves ?? [] }]),
    ).toEqual({ ok: true });
    expect((await store.reclaim.cut(f.branch, -1, 10, false)).count).toBe(2);
    await store.close();
  });

  test("a directory that is gone is an error in time", async () => {
    const path = fresh();
    const f = await made(path, 1);
    const store = await openDir(path, { busyMs: 200 });
    rmSync(path, { recursive: true });
    await expect(store.apply([f.save({ items: 1 })])).rejects.toMatchObject({
      name: "HoldfastError",
    });
    await store.close().catch(() => {});
  });

  test("FILE-3: links in the place of our directories and of the anchors are not followed", async () => {
    const path = fresh();
    await made(path, 1);
    const outside = fresh();
    mkdirSync(outside);
    writeFileSync(join(outside, "notes"), "mine\n");
    rmSync(join(path, "anchors"));
    symlinkSync(join(outside, "notes"), join(path, "anchors"));
    const store = await openDir(path);
    const f = new Fixture("b");
    await store.apply([f.begin()]);
    await store.apply([f.save({ items: 1 })]);
    await store.close();
    expect(readFileSync(join(outside, "notes"), "utf8")).toBe("mine\n");
    renameSync(join(path, "sessions"), join(path, "elsewhere"));
    symlinkSync(outside, join(path, "sessions"));
    await expect(openDir(path)).rejects.toMatchObject({ code: "CORRUPT" });
    expect(readdirSync(outside)).toEqual(["notes"]);
  });
});
