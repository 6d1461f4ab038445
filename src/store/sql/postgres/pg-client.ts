/**
 * The thin layer over `pg`: all that knows it. Statements are sent in batches: what stands before
 * one Sync of the protocol is one transaction and one round trip, so that a read can be told its
 * tenant without a second one, and without anything that stays behind on the connection (a pooler
 * may give the next statement to another).
 */
import { createRequire } from "node:module";
import { missingPackage } from "../../../core/values/errors.js";
import type { Param, Row } from "../database.js";

export interface Statement {
  readonly text: string;
  readonly params: readonly Param[];
  /**
   * What it answers need not be described: it is text, or texts and bytes that are UTF-8, and come
   * as they are.
   */
  readonly says?: "text" | "bytes";
}

export interface Answer {
  readonly rows: readonly Row[];
  /** How many rows it changed. */
  readonly count: number;
}

/** What this store uses of `pg`'s connection: the messages of the extended protocol. */
interface Wire {
  readonly stream: { cork?(): void; uncork?(): void };
  readonly parsedStatements: Record<string, string>;
  parse(message: { readonly text: string; readonly name: string }): void;
  bind(message: {
    readonly statement: string;
    readonly values: readonly (string | Buffer | null)[];
    readonly binary: boolean;
  }): void;
  describe(message: { readonly type: "P"; readonly name: "" }): void;
  execute(message: { readonly portal: "" }): void;
  sync(): void;
}

export interface Client {
  readonly database?: string | null;
  readonly user?: string | null;
  connect(): Promise<unknown>;
  query(batch: Batch): unknown;
  query(text: string, values?: readonly unknown[]): Promise<{ rows: Record<string, unknown>[] }>;
  on(event: "error" | "end", listener: (error?: unknown) => void): unknown;
  on(event: "notification", listener: (message: { readonly payload?: string }) => void): unknown;
  end(): Promise<void>;
  ref(): void;
  unref(): void;
  /** A socket; once it is connected with TLS, one of that kind. */
  readonly connection: {
    readonly stream: {
      destroy(error?: Error): void;
      readonly remoteAddress?: string;
      readonly encrypted?: boolean;
    };
  };
}

export interface ConnectOptions {
  readonly connectionString: string;
  readonly application_name: string;
  readonly connectionTimeoutMillis: number;
  readonly keepAlive: true;
  readonly keepAliveInitialDelayMillis: number;
}

interface Pg {
  Client: new (options: ConnectOptions) => Client;
}

const require = createRequire(import.meta.url);

/** `pg` is what only those who use Postgres need. */
export function loadPg(): Pg {
  try {
    return require("pg") as Pg;
  } catch (error) {
    throw missingPackage("Postgres", "pg", error);
  }
}

const textOf = (value: Param): string | Buffer | null => {
  if (value === null || typeof value === "string") return value;
  if (typeof value === "number") return String(value);
  // The driver sends as bytes only what is a Buffer.
  return Buffer.isBuffer(value)
    ? value
    : Buffer.from(value.buffer, value.byteOffset, value.byteLength);
};

type Decode = (text: string) => unknown;
const decoders: Readonly<Record<number, Decode>> = {
  16: (text) => (text === "t" ? 1 : 0),
  17: (text) => Buffer.from(text.slice(2), "hex"),
  20: Number,
  21: Number,
  23: Number,
  701: Number,
  1700: Number,
};

/**
 * Statements sent together. It is what `pg` calls a submittable: it writes its messages itself, and
 * is handed what comes back.
 */
export class Batch {
  readonly answers: Promise<readonly Answer[]>;
  readonly #statements: readonly Statement[];
  readonly #named: boolean;
  readonly #each: ((answer: Answer, index: number) => void) | undefined;
  readonly #done: Answer[] = [];
  readonly #parsed = new Set<string>();
  #rows: Row[] = [];
  #decoders: (Decode | undefined)[] = [];
  #resolve!: (answers: readonly Answer[]) => void;
  #reject!: (error: unknown) => void;

  /**
   * `named`: statements are prepared once for each connection. Not behind a pooler that moves
   * sessions between connections. `each` is told the answer to every statement as soon as it has
   * come, while others are still on their way.
   */
  constructor(
    statements: readonly Statement[],
    named: boolean,
    each?: (answer: Answer, index: number) => void,
  ) {
    this.#statements = statements;
    this.#named = named;
    this.#each = each;
    this.answers = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  submit(wire: Wire): void {
    wire.stream.cork?.();
    try {
      let last: string | undefined;
      for (const { text, params, says } of this.#statements) {
        const name = this.#named ? nameOf(text) : "";
        // The same again needs no second look: the statement without a name stays until the next.
        const isKnown =
          name === ""
            ? text === last
            : wire.parsedStatements[name] !== undefined || this.#parsed.has(name);
        if (!isKnown) wire.parse({ text, name });
        if (name !== "") this.#parsed.add(name);
        last = text;
        wire.bind({ statement: name, values: params.map(textOf), binary: says === "bytes" });
        if (says === undefined) wire.describe({ type: "P", name: "" });
        wire.execute({ portal: "" });
      }
      wire.sync();
    } finally {
      wire.stream.uncork?.();
    }
    this.#wire = wire;
  }

  #wire: Wire | undefined;

  handleRowDescription({
    fields,
  }: {
    readonly fields: readonly { readonly dataTypeID: number }[];
  }): void {
    this.#decoders = fields.map(({ dataTypeID }) => decoders[dataTypeID]);
  }

  handleDataRow({ fields }: { readonly fields: readonly (string | null)[] }): void {
    const row: unknown[] = new Array(fields.length);
    for (let i = 0; i < fields.length; i++) {
      const field = fields[i] as string | null;
      const decode = this.#decoders[i];
      row[i] = field === null || decode === undefined ? field : decode(field);
    }
    this.#rows.push(row);
  }

  /** `INSERT 0 3`, `UPDATE 2`, `SELECT 5`: the last word is how many. */
  handleCommandComplete({ text }: { readonly text: string }): void {
    const answer = { rows: this.#rows, count: Number(text.slice(text.lastIndexOf(" ") + 1)) || 0 };
    this.#done.push(answer);
    this.#rows = [];
    this.#decoders = [];
    this.#each?.(answer, this.#done.length - 1);
  }

  handleEmptyQuery(): void {}
  handlePortalSuspended(): void {}
  handleCopyInResponse(): void {}
  handleCopyData(): void {}

  handleError(error: unknown): void {
    this.#reject(error);
  }

  handleReadyForQuery(): void {
    // Known to be prepared only now: one that failed on the way is not.
    for (const name of this.#parsed) if (this.#wire) this.#wire.parsedStatements[name] = name;
    this.#resolve(this.#done);
  }
}

const names = new Map<string, string>();

function nameOf(text: string): string {
  let name = names.get(text);
  if (name === undefined) {
    name = `holdfast_${names.size + 1}`;
    names.set(text, name);
  }
  return name;
}
