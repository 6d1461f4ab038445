/**
 * The address of the run's one Postgres (test/support/global-setup.ts). The first to ask waits
 * until it has started.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { inject } from "vitest";

const MOST_MS = 60_000;

let url: string | undefined;

export function postgresUrl(): string {
  url ??= asked(inject("postgres"));
  return url;
}

function asked(place: string): string {
  const answer = join(place, "address");
  writeFileSync(join(place, "wanted"), "");
  const cell = new Int32Array(new SharedArrayBuffer(4));
  for (const until = performance.now() + MOST_MS; !existsSync(answer); Atomics.wait(cell, 0, 0, 20))
    if (performance.now() > until) throw new Error(`Postgres did not start within ${MOST_MS} ms`);
  const said = JSON.parse(readFileSync(answer, "utf8")) as {
    readonly url?: string;
    readonly error?: string;
  };
  if (said.url === undefined) throw new Error(said.error);
  return said.url;
}
