/**
 * Reads on their way to Postgres. Those that are asked for in one tick go together: they cost one
 * round trip, and not one each.
 */
import { HoldfastError } from "../../../core/values/errors.js";
import type { Row } from "../database.js";
import type { Connections } from "./connections.js";
import type { Statement } from "./pg-client.js";

interface Waiting {
  readonly statement: Statement;
  readonly resolve: (rows: readonly Row[]) => void;
  readonly reject: (error: unknown) => void;
}

/** More than these are rather asked on several connections. */
const MOST_TOGETHER = 4;
const LONG_MS = 3_600_000;

export class Reads {
  readonly #connections: Connections;
  readonly #beginAs: Statement;
  #waiting: Waiting[] = [];

  constructor(connections: Connections, beginAs: Statement) {
    this.#connections = connections;
    this.#beginAs = beginAs;
  }

  read(statement: Statement): Promise<readonly Row[]> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ statement, resolve, reject });
      // Not in the next tick: whoever asks may have much to do with what it has, while this could
      // be on its way.
      if (this.#waiting.length === 1) queueMicrotask(() => this.#flush());
    });
  }

  async readLong(statement: Statement): Promise<readonly Row[]> {
    const answers = await this.#connections.use(
      (connection) => connection.send([this.#beginAs, statement]),
      { withinMs: LONG_MS },
    );
    return answers[1]?.rows ?? [];
  }

  #flush(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (let i = 0; i < waiting.length; i += MOST_TOGETHER)
      void this.#send(waiting.slice(i, i + MOST_TOGETHER));
  }

  async #send(reads: readonly Waiting[]): Promise<void> {
    const statements = [this.#beginAs, ...reads.map(({ statement }) => statement)];
    try {
      await this.#connections.use((connection) =>
        connection.send(statements, ({ rows }, i) => reads[i - 1]?.resolve(rows)),
      );
    } catch (error) {
      // One that fails says nothing about the others.
      const alone = reads.length > 1 && error instanceof HoldfastError && !error.retryable;
      if (alone) for (const read of reads) void this.#send([read]);
      else for (const { reject } of reads) reject(error);
    }
  }
}
