/**
 * One Postgres for the whole run. It starts when a test first asks for its address: a worker makes
 * the file `wanted` and waits for the file `address` (test/support/shared-postgres.ts).
 */
import { existsSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { startPostgres } from "./postgres.mjs";

declare module "vitest" {
  interface ProvidedContext {
    postgres: string;
  }
}

const LOOK_EVERY_MS = 50;

let directory: string | undefined;

export default function setup(project: TestProject): (() => Promise<void>) | undefined {
  const isFirst = directory === undefined;
  directory ??= mkdtempSync(join(tmpdir(), "holdfast-postgres-"));
  project.provide("postgres", directory);
  return isFirst ? serve(directory) : undefined;
}

function serve(place: string): () => Promise<void> {
  let starting: ReturnType<typeof start> | undefined;
  const looking = setInterval(() => {
    if (starting !== undefined || !existsSync(join(place, "wanted"))) return;
    clearInterval(looking);
    starting = start(place);
  }, LOOK_EVERY_MS);
  return async () => {
    clearInterval(looking);
    const server = await starting;
    await server?.remove();
    rmSync(place, { recursive: true, force: true });
    directory = undefined;
  };
}

async function start(place: string) {
  const tell = (said: object) => {
    writeFileSync(join(place, "draft"), JSON.stringify(said));
    renameSync(join(place, "draft"), join(place, "address"));
  };
  try {
    const server = await startPostgres({
      settings: { max_connections: 200, max_locks_per_transaction: 256 },
    });
    tell({ url: server.url() });
    return server;
  } catch (error) {
    tell({ error: String(error) });
    return undefined;
  }
}
