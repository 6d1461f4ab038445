/** Opening a directory: what is checked before it is touched, and what a new one is given. */
import { randomBytes } from "node:crypto";
import { mkdirSync, realpathSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { HoldfastError, quote } from "../../core/values/errors.js";
import { refuseNetworkFileSystem } from "../file-system.js";
import { newGeneration } from "../generation.js";
import { identityOf, isMoved } from "../presence.js";
import { ofAllTenants } from "../refusals.js";
import { isUnseen, translate } from "./files/failures.js";
import { addFile, isDraft, makeDirectory, namesIn, putFile, readFile } from "./files/files.js";
import { nameOf } from "./files/names.js";
import { DirStore } from "./store.js";
import { withTypedErrors } from "./typed-errors.js";

export interface DirOptions {
  /** How long another writing process is waited for before a call fails with BUSY. */
  readonly busyMs?: number;
  /**
   * Each tenant is a store of its own inside the directory; the one with no name is the directory
   * itself.
   */
  readonly tenant?: string;
}

/**
 * The format that this version reads and writes. ARCHITECTURE.md, "Format versions", says how it
 * changes.
 */
const FORMAT = 1;
const BUSY_MS = 5_000;

/** What a store is known by. */
interface Birth {
  readonly format: number;
  readonly store: string;
  readonly tenant?: string;
  /**
   * Absent until the directory was first put back from a copy; of the directory itself, for all
   * tenants.
   */
  readonly generation?: string;
}

export async function openDir(
  path: string,
  { busyMs = BUSY_MS, tenant = "" }: DirOptions = {},
): Promise<DirStore> {
  try {
    const top = enter(path);
    let root = top;
    let { store } = born(root, "");
    if (tenant !== "") {
      root = join(root, "tenants", nameOf(tenant));
      makeDirectory(root);
      ({ store } = born(root, tenant));
    }
    const at = root;
    const opened = new DirStore(at, store, {
      busyMs,
      format: FORMAT,
      findMoved: movedFrom(at, store),
      checkFormat: () => void born(at, tenant),
      generation: () => born(top, "").generation ?? "",
      beginGeneration: () => {
        if (tenant !== "") throw ofAllTenants("A new generation");
        return beginGeneration(top);
      },
    });
    await opened.begin();
    return withTypedErrors(opened);
  } catch (error) {
    throw translate(error);
  }
}

function enter(path: string): string {
  const root = resolve(path);
  try {
    mkdirSync(root, { recursive: true, mode: 0o700 });
  } catch (error) {
    if (isFile(root)) throw notAStore(root, "is a file, and no directory");
    throw new HoldfastError(
      "IO",
      `${quote(root)} cannot be opened (${quote((error as Error).message)}).`,
      {},
      error,
    );
  }
  if (!statSync(root).isDirectory()) throw notAStore(root, "is a file, and no directory");
  refuseNetworkFileSystem(root);
  return realpathSync(root);
}

function isFile(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isDirectory() === false;
  } catch {
    return false;
  }
}

/** Reads what the store is known by, or makes it where the directory is empty. */
function born(root: string, tenant: string): Birth {
  const path = join(root, "holdfast.json");
  const text = readFile(path)?.toString() ?? begin(root, path, tenant);
  const found = parse(text);
  if (found === undefined)
    throw notAStore(root, "has a holdfast.json that says nothing of a store");
  if (found.format > FORMAT) {
    throw new HoldfastError(
      "NEWER_FORMAT",
      `${quote(root)} has format ${found.format}, and this version knows ${FORMAT}. Update holdfast; the directory was left untouched.`,
      { found: found.format },
    );
  }
  if ((found.tenant ?? "") !== tenant) throw notAStore(root, "belongs to another tenant");
  return found;
}

/**
 * Answers how to find that another directory stands at the path, or another store in it. A process
 * that begins a generation replaces holdfast.json: then the id in it is the same.
 */
function movedFrom(root: string, store: string): () => string | undefined {
  const path = join(root, "holdfast.json");
  const directory = identityOf(root);
  let file = identityOf(path);
  return () => {
    if (isMoved(root, directory)) return root;
    if (!isMoved(path, file)) return undefined;
    try {
      const now = identityOf(path);
      if (parse(readFile(path)?.toString() ?? "")?.store !== store) return path;
      file = now;
      return undefined;
    } catch (error) {
      return isUnseen(error) ? undefined : path;
    }
  };
}

function parse(text: string): Birth | undefined {
  try {
    const found = JSON.parse(text) as Partial<Birth> | null;
    const isOurs =
      Number.isSafeInteger(found?.format) &&
      (found?.format as number) >= 1 &&
      /^[\w-]{16}$/.test(String(found?.store)) &&
      (found?.generation === undefined || /^[\w-]{16}$/.test(String(found.generation)));
    return isOurs ? (found as Birth) : undefined;
  } catch {
    return undefined;
  }
}

function begin(root: string, path: string, tenant: string): string {
  // A draft is what one who was killed here has left.
  const foreign = namesIn(root).find(
    (name) => !(isDraft(name) && name.startsWith("holdfast.json.")) && name !== "holdfast.json",
  );
  if (foreign !== undefined) {
    // Another may have made it since it was looked for.
    const made = readFile(path)?.toString();
    if (made !== undefined) return made;
    throw notAStore(root, `is not empty (${quote(foreign)}) and has no holdfast.json`);
  }
  const store = randomBytes(12).toString("base64url");
  const birth: Birth = { format: FORMAT, store, ...(tenant === "" ? undefined : { tenant }) };
  const isFirst = addFile(path, `${JSON.stringify(birth)}\n`);
  if (isFirst && tenant === "") addFile(join(root, ".gitignore"), IGNORED);
  return readFile(path)?.toString() ?? "";
}

function beginGeneration(root: string): string {
  const generation = newGeneration();
  putFile(join(root, "holdfast.json"), `${JSON.stringify({ ...born(root, ""), generation })}\n`);
  return generation;
}

/** What only this machine knows, or can be made again. */
const IGNORED = `# Written by holdfast: who writes, what is being written, and what can be made again.
lock-*.json
changes.jsonl
commit.json
reserve
*.draft
`;

const notAStore = (root: string, why: string): HoldfastError =>
  new HoldfastError("NOT_A_STORE", `${quote(root)} ${why}. It was left untouched.`);
