/** One Postgres for the whole run. */
import type { TestProject } from "vitest/node";
import { startPostgres } from "./postgres.mjs";

declare module "vitest" {
  interface ProvidedContext {
    postgres: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await startPostgres({ settings: { max_connections: 200, max_locks_per_transaction: 256 } });
  project.provide("postgres", server.url());
  return () => server.remove();
}
