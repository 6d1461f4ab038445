import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  describeOwner,
  freeLease,
  type Grant,
  grantLease,
  type Lease,
  MAX_LEASE_MS,
  type Owner,
  releaseLease,
  renewLease,
} from "../../../src/core/sessions/lease.js";

const owner = (nonce: string): Owner =>
  Object.freeze({ boot: "boot", space: "pid:1", pid: 7, started: "100", nonce });
const a = owner("a");
const b = owner("b");
const alive = () => false;

const epoch = fc.nat({ max: 1_000 });
const time = fc.nat({ max: 100_000 });
const leaseMs = fc.integer({ min: 1, max: 30_000 });
const held = fc
  .record({ epoch: epoch.map((n) => n + 1), owner: fc.constant(a), until: time })
  .map((lease): Lease => Object.freeze(lease));
const leases = fc.oneof(
  held,
  epoch.map((n): Lease => Object.freeze({ epoch: n, owner: null, until: 0 })),
);

const isGranted = (grant: Grant): boolean => "granted" in grant;

describe("grantLease", () => {
  test("LEASE-1: the epoch rises by one with every grant, and the grant lasts leaseMs from now", () => {
    fc.assert(
      fc.property(leases, time, leaseMs, fc.boolean(), (lease, now, ms, dead) => {
        const grant = grantLease(lease, { owner: b, now, leaseMs: ms, dead: () => dead });
        if ("granted" in grant)
          expect(grant.granted).toEqual({ epoch: lease.epoch + 1, owner: b, until: now + ms });
        else expect(grant).toEqual({ heldBy: lease.owner, remainingMs: lease.until - now });
      }),
    );
  });

  test("LEASE-2: granted exactly when it is free, has run out, or its owner is proven dead", () => {
    fc.assert(
      fc.property(leases, time, fc.boolean(), (lease, now, dead) => {
        const isFree = lease.owner === null || lease.until <= now || dead;
        expect(isGranted(grantLease(lease, { owner: b, now, leaseMs: 1, dead: () => dead }))).toBe(
          isFree,
        );
      }),
    );
  });

  test("LEASE-2: the last millisecond still belongs to the holder, the next one does not", () => {
    const lease: Lease = { epoch: 3, owner: a, until: 1_000 };
    const ask = (now: number) => grantLease(lease, { owner: b, now, leaseMs: 50, dead: alive });
    expect(ask(999)).toEqual({ heldBy: a, remainingMs: 1 });
    expect(ask(1_000)).toEqual({ granted: { epoch: 4, owner: b, until: 1_050 } });
  });

  test("LEASE-2: one that seems to last longer than any can is of a time before the clock began anew", () => {
    const ask = (until: number) =>
      isGranted(
        grantLease({ epoch: 3, owner: a, until }, { owner: b, now: 60, leaseMs: 50, dead: alive }),
      );
    expect([ask(60 + MAX_LEASE_MS), ask(61 + MAX_LEASE_MS)]).toEqual([false, true]);
  });

  test("LEASE-2: a holder that asks again is refused like any other: one session, one pair of hands", () => {
    expect(
      isGranted(
        grantLease(
          { epoch: 1, owner: a, until: 10 },
          { owner: a, now: 5, leaseMs: 10, dead: alive },
        ),
      ),
    ).toBe(false);
  });

  test("LEASE-2: a lease of another generation holds nobody up, and a grant says of which it is", () => {
    const lease: Lease = { epoch: 3, owner: a, until: 1_000, generation: "one" };
    const ask = (generation?: string) =>
      grantLease(lease, {
        owner: b,
        now: 1,
        leaseMs: 50,
        dead: alive,
        ...(generation && { generation }),
      });
    expect(isGranted(ask("one"))).toBe(false);
    expect(ask("two")).toEqual({ granted: { epoch: 4, owner: b, until: 51, generation: "two" } });
    expect(ask()).toEqual({ granted: { epoch: 4, owner: b, until: 51 } });
  });

  test("death is asked of the present owner, and only while the lease still lasts", () => {
    const asked: Owner[] = [];
    const dead = (who: Owner): boolean => {
      asked.push(who);
      return true;
    };
    grantLease({ epoch: 1, owner: a, until: 10 }, { owner: b, now: 5, leaseMs: 1, dead });
    grantLease({ epoch: 1, owner: a, until: 10 }, { owner: b, now: 10, leaseMs: 1, dead });
    grantLease(freeLease, { owner: b, now: 5, leaseMs: 1, dead });
    expect(asked).toEqual([a]);
  });

  test("the first lease ever has epoch 1", () => {
    expect(grantLease(freeLease, { owner: a, now: 0, leaseMs: 10, dead: alive })).toEqual({
      granted: { epoch: 1, owner: a, until: 10 },
    });
  });
});

describe("renewLease", () => {
  test("LEASE-1: keeps epoch and owner, and never makes a lease shorter", () => {
    fc.assert(
      fc.property(held, time, leaseMs, (lease, now, ms) => {
        const renewed = renewLease(lease, now, ms);
        expect(renewed).toEqual({
          epoch: lease.epoch,
          owner: lease.owner,
          until: Math.max(lease.until, now + ms),
        });
      }),
    );
  });

  test("LEASE-3: a lease that ran out and that nobody took is renewed under its old epoch", () => {
    expect(renewLease({ epoch: 4, owner: a, until: 10 }, 500, 30)).toEqual({
      epoch: 4,
      owner: a,
      until: 530,
    });
  });
});

describe("releaseLease", () => {
  test("LEASE-1: keeps the epoch, so that the next grant fences what is still on its way", () => {
    fc.assert(
      fc.property(held, time, (lease, now) => {
        const free = releaseLease(lease);
        expect(free).toEqual({ epoch: lease.epoch, owner: null, until: 0 });
        expect(grantLease(free, { owner: b, now, leaseMs: 1, dead: alive })).toEqual({
          granted: { epoch: lease.epoch + 1, owner: b, until: now + 1 },
        });
      }),
    );
  });
});

test("an owner is shown by its process", () => expect(describeOwner(a)).toBe("process 7"));
