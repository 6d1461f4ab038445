/**
 * SQLite's own check of a whole file, in a thread: of a large one it takes seconds, during which
 * nothing else would run. What the thread runs is a text, because a thread needs a file of its own
 * otherwise, which bundlers and test runners do not find.
 */
import { Worker } from "node:worker_threads";
import { HoldfastError, quote } from "../../../../core/values/errors.js";
import { identityOf } from "../../../presence.js";
import { DEFENCES, type DriverName, explain } from "../driver/driver.js";
import { stay } from "../driver/open-files.js";
import { findingsOf } from "../driver/unreadable.js";

// It has neither `require` nor `import`: NODE_OPTIONS may make Node read it as a module.
const CODE = `
const { parentPort, workerData: { file, driver, from, defences } } = process.getBuiltinModule("node:worker_threads");
const load = process.getBuiltinModule("node:module").createRequire(from);
const look = () => {
  const db = driver === "node:sqlite"
    ? new (load("node:sqlite").DatabaseSync)(file, { readOnly: true })
    : new (load("better-sqlite3"))(file, { readonly: true });
  db.exec(defences);
  const rows = db.prepare("PRAGMA integrity_check").all();
  db.close();
  return rows.map((row) => String(row.integrity_check));
};
try {
  parentPort.postMessage({ said: look() });
} catch ({ message, code, errcode }) {
  parentPort.postMessage({ failure: { message, code, errcode } });
}
`;

/**
 * Throw where the trees of a file are damaged that no other process has open, or where the disk
 * cannot read them.
 */
export async function checkFile(
  file: string,
  driver: DriverName,
  signal?: AbortSignal,
): Promise<void> {
  signal?.throwIfAborted();
  const left = stay(identityOf(file));
  try {
    const said = await check(file, driver, signal);
    const [first = "nothing"] = findingsOf(
      said.map((line) => [line]),
      file,
    );
    if (first !== "ok")
      throw new HoldfastError(
        "CORRUPT",
        `The copy in ${quote(file)} is damaged (${quote(first)}).`,
      );
  } finally {
    left();
  }
}

/** An error of a driver is an error no more behind a thread: its fields come one by one. */
type Answer =
  | { readonly said: readonly string[] }
  | {
      readonly failure: {
        readonly message: string;
        readonly code?: string;
        readonly errcode?: number;
      };
    };

function check(
  file: string,
  driver: DriverName,
  signal: AbortSignal | undefined,
): Promise<readonly string[]> {
  // The flags of this process are for its own program, not for the thread.
  const thread = new Worker(CODE, {
    eval: true,
    execArgv: [],
    workerData: { file, driver, from: import.meta.url, defences: DEFENCES },
  });
  return new Promise<readonly string[]>((resolve, reject) => {
    thread.once("message", (answer: Answer) => {
      if ("said" in answer) resolve(answer.said);
      else
        reject(
          explain(Object.assign(new Error(answer.failure.message), answer.failure), file, file),
        );
    });
    thread.once("error", reject);
    thread.once("exit", () => reject(new Error("the check ended without an answer")));
    signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
  }).finally(() => void thread.terminate());
}
