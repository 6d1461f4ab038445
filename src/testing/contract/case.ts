/** A case of the contract, and what cases are written with. */
import assert from "node:assert/strict";
import type { Save } from "../../core/journal/save.js";
import type { Capability } from "../../store/capabilities.js";
import type { Applied, Refusal } from "../../store/port/changes.js";
import type { Traits } from "../../store/port/info.js";
import type { KnownNeeds } from "../../store/port/reclaim.js";
import type { Store } from "../../store/port.js";

/** A way to open the store that is tested. */
export interface StoreHarness {
  readonly traits: Traits;
  /**
   * Open the store for a tenant.
   * The first call finds it empty; a later one finds what a durable store was given before. A store
   * that knows no tenants opens another place for each.
   */
  open(tenant?: string): Promise<Store>;
}

/** One test of the contract that a store keeps. */
export interface ContractCase {
  readonly name: string;
  /** The capabilities that it is about. None: it is of the required part. */
  readonly needs: readonly Capability[];
  /** `make` gives a harness on a place of its own at every call. */
  readonly run: (make: () => StoreHarness | Promise<StoreHarness>) => Promise<void>;
}

export type Having<C extends Capability> = Store & {
  readonly [K in C]-?: NonNullable<Store[K]>;
};

interface Case<C extends Capability, F> {
  readonly act: (store: Having<C>) => Promise<F>;
  readonly check: (store: Having<C>, facts: F) => Promise<void>;
}

/** Opens a store that must have some capabilities. */
export async function openHaving<C extends Capability>(
  harness: StoreHarness,
  needs: readonly C[],
  tenant?: string,
): Promise<Having<C>> {
  const store = await harness.open(tenant);
  for (const need of needs) assert.notEqual(store[need], undefined, `the store has no ${need}`);
  return store as Having<C>;
}

/** Answers how to define cases about capabilities. */
export const defineFor =
  <C extends Capability = never>(...needs: readonly C[]) =>
  <F>(name: string, { act, check }: Case<C, F>): ContractCase => ({
    name,
    needs,
    async run(make) {
      const harness = await make();
      const store = await openHaving(harness, needs);
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
      const again = await openHaving(harness, needs);
      try {
        if (harness.traits.durable) await check(again, facts);
        else
          assert.deepEqual(
            await again.sessions({ limit: 1 }),
            [],
            "a store that is not durable is empty when opened again",
          );
      } finally {
        await again.close();
      }
    },
  });

/** Defines a case of the required part. */
export const define = defineFor();

export const ok = (applied: Applied, message?: string): void =>
  assert.equal(applied.ok, true, message);

export function refused(applied: Applied, why: Refusal, change = 0): void {
  assert.deepEqual(applied, { ok: false, change, why });
}

export const all = { from: 1, to: 2 ** 32 - 1, limit: 10_000, items: true, state: true } as const;
/** Whoever replaces knows all that needs what is there. */
export const anything: KnownNeeds = {
  branch: Number.MAX_SAFE_INTEGER,
  doc: Number.MAX_SAFE_INTEGER,
};
export const seqs = (saves: readonly Save[]): number[] => saves.map(({ seq }) => seq);
