/** A case of the contract, and what cases are written with. */
import assert from "node:assert/strict";
import type { Save } from "../../core/journal/save.js";
import type { Applied, Refusal } from "../../store/port/changes.js";
import type { Traits } from "../../store/port/info.js";
import type { KnownNeeds } from "../../store/port/reclaim.js";
import type { Store } from "../../store/port.js";

/** A way to open the store that is tested. */
export interface StoreHarness {
  readonly traits: Traits;
  /**
   * Open the store for a tenant.
   * The first call finds it empty; a later one finds what a durable store was given before.
   */
  open(tenant?: string): Promise<Store>;
}

/** One test of the contract that a store keeps. */
export interface ContractCase {
  readonly name: string;
  /** `make` gives a harness on a place of its own at every call. */
  readonly run: (make: () => StoreHarness | Promise<StoreHarness>) => Promise<void>;
}

interface Case<F> {
  readonly act: (store: Store) => Promise<F>;
  readonly check: (store: Store, facts: F) => Promise<void>;
}

export function define<F>(name: string, { act, check }: Case<F>): ContractCase {
  return {
    name,
    async run(make) {
      const harness = await make();
      const store = await harness.open();
      let facts: F;
      try {
        assert.deepEqual(
          store.traits,
          harness.traits,
          "the store's traits are those of its harness",
        );
        facts = await act(store);
        await check(store, facts);
      } finally {
        await store.close();
      }
      const again = await harness.open();
      try {
        if (harness.traits.durable) await check(again, facts);
        else
          assert.equal(
            (await again.counts()).sessions,
            0,
            "a store that is not durable is empty when opened again",
          );
      } finally {
        await again.close();
      }
    },
  };
}

export const ok = (applied: Applied, message?: string): void =>
  assert.equal(applied.ok, true, message);

export function refused(applied: Applied, why: Refusal, change = 0): void {
  assert.deepEqual(applied, { ok: false, change, why });
}

export const all = { from: 1, to: 2 ** 32 - 1, limit: 10_000, items: true, state: true } as const;
/** Whoever replaces knows all that needs what is there. */
export const anything: KnownNeeds = { line: Number.MAX_SAFE_INTEGER, doc: Number.MAX_SAFE_INTEGER };
export const seqs = (saves: readonly Save[]): number[] => saves.map(({ seq }) => seq);
