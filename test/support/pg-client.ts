/** A client of the server's own, for what a test does behind the store's back. */
import { createRequire } from "node:module";

export interface Client {
  connect(): Promise<void>;
  query(
    text: string,
    values?: readonly unknown[],
  ): Promise<{ rows: Record<string, unknown>[]; rowCount: number | null }>;
  end(): Promise<void>;
}

export const { Client: PgClient } = createRequire(import.meta.url)("pg") as {
  Client: new (options: object) => Client;
};
