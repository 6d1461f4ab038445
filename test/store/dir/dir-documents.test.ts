/** Documents beside the sessions of a store in a directory: what they pin. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type BranchId, placeId } from "../../../src/core/values/ids.js";
import {
  DocFiles,
  type DocStep,
  type FiledDoc,
} from "../../../src/store/dir/documents/doc-files.js";
import type { Pin } from "../../../src/store/port/documents.js";
import { scratch } from "../../support/stores.js";

const root = scratch();
let count = 0;
const fresh = (): string => join(root, `store-${++count}`);

const branch = (n: number): BranchId => `${n}`.padStart(16, "0") as BranchId;

interface Place {
  readonly on: number;
  readonly seq: number;
}

const docOf = (id: string, no: number, places: readonly Place[]): FiledDoc => ({
  kind: "k",
  id,
  no,
  of: null,
  version: 1,
  text: "",
  body: null,
  pins: places.map(({ on, seq }) => placeId(branch(on), seq)),
});

const sorted = (pins: readonly Pin[]) => pins.toSorted((a, b) => a.doc - b.doc || a.seq - b.seq);

const id = fc.constantFrom("a", "b", "c");
const places = fc.uniqueArray(fc.record({ on: fc.nat(2), seq: fc.integer({ min: 1, max: 4 }) }), {
  maxLength: 6,
  selector: ({ on, seq }) => `${on} ${seq}`,
});
const step = fc.oneof(
  fc.record({ kind: fc.constantFrom("put", "begun"), id, places }),
  fc.record({ kind: fc.constantFrom("ended", "removed by hand"), id, places: fc.constant([]) }),
);

test("PORT-10: the pins of a line are those of all documents there are, for who writes and for who reads beside it", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 10 }), (steps) => {
      const path = fresh();
      const pending: DocStep[] = [];
      const [writer, reader] = [
        new DocFiles(path, () => pending),
        new DocFiles(path, () => pending),
      ];
      writer.beginWriting({ isUnchanged: false });
      const there = new Map<string, { readonly no: number; readonly places: readonly Place[] }>();
      for (const [i, one] of steps.entries()) {
        const no = i + 1;
        const was = there.get(one.id);
        for (const begun of pending.splice(0)) writer.place(begun);
        if (one.kind === "put")
          writer.place({ kind: "k", id: one.id, put: docOf(one.id, no, one.places) });
        else if (one.kind === "begun")
          pending.push({ kind: "k", id: one.id, put: docOf(one.id, no, one.places) });
        else if (was === undefined) continue;
        else if (one.kind === "ended") writer.place({ kind: "k", id: one.id, ends: was.no });
        else {
          rmSync(join(path, "documents", "k", `${one.id}.json`));
          writer.beginWriting({ isUnchanged: false });
        }
        if (one.kind === "put" || one.kind === "begun")
          there.set(one.id, { no, places: one.places });
        else there.delete(one.id);
        for (const on of [0, 1, 2]) {
          const expected = [...there.values()].flatMap((doc) =>
            doc.places.flatMap((place) => (place.on === on ? { seq: place.seq, doc: doc.no } : [])),
          );
          for (const who of [writer, reader])
            expect(sorted(who.pins(branch(on)))).toEqual(sorted(expected));
        }
      }
    }),
    { numRuns: 40 },
  );
});

test("what pins a line is found by the line, however much else is pinned", () => {
  const [branches, documents] = [1_000, 24];
  const docs = new DocFiles(fresh(), () => []);
  docs.beginWriting({ isUnchanged: false });
  const all = Array.from({ length: branches }, (_, on) => ({ on, seq: 7 }));
  for (let no = 1; no <= documents; no++)
    docs.place({ kind: "k", id: `d${no}`, put: docOf(`d${no}`, no, all) });
  const begun = performance.now();
  for (let on = 0; on < branches; on++) expect(docs.pins(branch(on))).toHaveLength(documents);
  // Going over all of them for each takes some seconds.
  expect(performance.now() - begun).toBeLessThan(1_000);
});

test("SESSIONFILE-2: a document that ends with a change that is made, and not yet in place, is gone for everybody, and not damaged", () => {
  const path = fresh();
  const pending: DocStep[] = [];
  const [writer, reader] = [new DocFiles(path, () => pending), new DocFiles(path, () => pending)];
  writer.beginWriting({ isUnchanged: false });
  for (const [i, id] of ["a", "b"].entries())
    writer.place({ kind: "k", id, put: docOf(id, i + 1, [{ on: 0, seq: 1 }]) });
  pending.push({ kind: "k", id: "a", ends: 1 });
  for (const files of [writer, reader]) {
    expect(files.get("k", "a")).toBeUndefined();
    expect(files.list({ kind: "k", limit: 10 }).map((row) => row.id)).toEqual(["b"]);
    expect(files.check()).toEqual([]);
    expect(files.pins(branch(0))).toEqual([{ seq: 1, doc: 2 }]);
  }
});
