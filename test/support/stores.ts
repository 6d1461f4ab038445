/**
 * The table of stores that tests run over. A store is known by its traits, never by its name.
 *
 * `npm test` runs the contract on every store, and the features on SQLite. `npm run test:stores`
 * runs the features on the others. Name stores in HOLDFAST_STORES to choose
 * (`HOLDFAST_STORES=dir,postgres npx vitest run test/features`), or `all`.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Traits } from "../../src/store/index.js";
import { postgresUrl } from "./shared-postgres.js";

const scratches: string[] = [];

/** A place for files that is removed when the test run's process ends. */
export function scratch(): string {
  if (scratches.length === 0) process.once("exit", removeScratches);
  const directory = mkdtempSync(join(tmpdir(), "s-"));
  scratches.push(directory);
  return directory;
}

function removeScratches(): void {
  for (const directory of scratches) rmSync(directory, { recursive: true, force: true });
}

export interface StoreKind {
  readonly name: string;
  readonly traits: Traits;
  /** A fresh address each time. */
  readonly address: () => string;
}

let directory: string | undefined;
let count = 0;

export const everyStore: readonly StoreKind[] = [
  {
    name: "memory",
    traits: { durable: false, oneMachine: true, shared: false },
    address: () => "memory:",
  },
  {
    name: "sqlite",
    traits: { durable: true, oneMachine: true, shared: true },
    address() {
      directory ??= scratch();
      count += 1;
      return join(directory, `store-${count}.db`);
    },
  },
  {
    name: "dir",
    traits: { durable: true, oneMachine: true, shared: true, inBulk: true },
    address() {
      directory ??= scratch();
      count += 1;
      return `dir:${join(directory, `store-${count}`)}`;
    },
  },
  {
    name: "postgres",
    traits: { durable: true, oneMachine: false, shared: true },
    address() {
      count += 1;
      return `${postgresUrl()}?schema=${encodeURIComponent(`test ${process.pid}-${count}`)}`;
    },
  },
];

const chosen = (process.env["HOLDFAST_STORES"] ?? "sqlite").split(",");

/** The stores that the features are tested on in this run. */
export const stores: readonly StoreKind[] = everyStore.filter(
  ({ name }) => chosen.includes(name) || chosen.includes("all"),
);
