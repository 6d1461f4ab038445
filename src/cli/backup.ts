/** Backups from the command line: made, put back, and, for copies that others made, said to be one. */
import { createInterface } from "node:readline/promises";
import { HoldfastError, quote } from "../core/errors.js";
import { open, restoreBackup } from "../index.js";
import { refuseMissing } from "./store.js";

type Flags = ReadonlySet<string>;

const say = (text: string) => process.stdout.write(`${text}\n`);
const tell = (text: string) => process.stderr.write(text);

export async function backup(path: string, store: string | undefined, flags: Flags): Promise<void> {
  const bar = progressBar();
  refuseMissing(store);
  await using hold = await open(store);
  try {
    const made = await hold.backup(path, { force: flags.has("--force"), onProgress: (so) => bar.show(so) });
    bar.end();
    if (flags.has("--json")) return void say(JSON.stringify({ path, ...made }));
    say(`${shown(path)}: ${counted(made.sessions, "session")}, ${size(made.bytes)}, in ${(made.ms / 1_000).toFixed(1)} s.`);
    tell(`To put it back: holdfast restore-backup ${shown(path)}${of(store)} --force\n`);
  } finally {
    bar.end();
  }
}

export async function restore(path: string, store: string | undefined, flags: Flags): Promise<void> {
  const force = flags.has("--force");
  if (force) await ask(flags, `What is in the store is put aside, and ${quote(path)} takes its place.`);
  const restored = await restoreBackup(path, store, { force });
  if (flags.has("--json")) return void say(JSON.stringify(restored));
  say(`Restored ${counted(restored.sessions, "session")}, ${size(restored.bytes)}, as they were at ${restored.madeAt}.`);
  if (restored.setAside !== undefined) tell(`What stood there is in ${shown(restored.setAside)}, a backup, too.\n`);
  if (restored.unfinished > 0)
    tell(
      `${counted(restored.unfinished, "session")} ${restored.unfinished === 1 ? "was" : "were"} under way, and will open as in doubt: the original may have gone on with them. Once a worker, or you, have opened them, they stand in hold.effects.list({ status: "in-doubt" }), to be settled.\n`,
    );
}

export async function restored(store: string | undefined, flags: Flags): Promise<void> {
  refuseMissing(store);
  await ask(flags, "Every session that was under way will open as in doubt.");
  await using hold = await open(store);
  await hold.beginIncarnation();
  say(flags.has("--json") ? "{}" : "A new incarnation of the store has begun.");
}

/** A person is asked; where there is none, nothing is done without --yes. */
async function ask(flags: Flags, what: string): Promise<void> {
  if (flags.has("--yes")) return;
  if (!process.stdin.isTTY || !process.stderr.isTTY)
    throw new HoldfastError("INVALID_OPTION", `${what} Pass --yes to say that this is wanted.`, { path: "--yes" });
  const asking = createInterface({ input: process.stdin, output: process.stderr });
  const answer = await asking.question(`${what} Go on? [y/N] `);
  asking.close();
  if (!/^y(es)?$/i.test(answer.trim())) throw new HoldfastError("INVALID_OPTION", "Nothing was done.", { path: "--yes" });
}

/** On a terminal only: elsewhere it would be noise. */
function progressBar() {
  let isShown = false;
  let at = 0;
  return {
    show({ bytes, of: all }: { readonly bytes: number; readonly of: number }): void {
      if (!process.stderr.isTTY || performance.now() - at < 100) return;
      at = performance.now();
      isShown = true;
      const part = all === 0 ? 1 : bytes / all;
      tell(`\r[${"#".repeat(Math.round(part * 30)).padEnd(30, ".")}] ${Math.floor(part * 100)} % of ${size(all)} `);
    },
    end(): void {
      if (isShown) tell("\r\x1b[K");
      isShown = false;
    },
  };
}

const counted = (n: number, what: string): string => `${n} ${what}${n === 1 ? "" : "s"}`;

function size(bytes: number): string {
  if (bytes < 1_000_000) return `${Math.ceil(bytes / 1_000)} kB`;
  return bytes < 1_000_000_000 ? `${(bytes / 1_000_000).toFixed(1)} MB` : `${(bytes / 1_000_000_000).toFixed(2)} GB`;
}

/** As a shell takes it, where it needs no more than quotes; control characters are not sent to a terminal. */
const shown = (word: string): string =>
  /^[\w./:@%+,-]+$/.test(word) ? word : /^[^'\p{Cc}\p{Cf}]+$/u.test(word) ? `'${word}'` : quote(word);

const of = (store: string | undefined): string => (store === undefined ? "" : ` --store ${shown(store)}`);
