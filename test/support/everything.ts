/**
 * Everything that a store shows and keeps: all public reads, all rows, all files. To look for a
 * text that must not be there.
 */
import type { Holdfast } from "../../src/index.js";
import { filesWith } from "./bytes.js";
import { PgClient } from "./pg-client.js";
import { postgresUrl } from "./shared-postgres.js";
import type { StoreKind } from "./stores.js";

/** What every public read answers, as one text. */
export async function everyRead(hold: Holdfast): Promise<string> {
  const seen: unknown[] = [];
  const { items: sessions } = await hold.sessions.list({ limit: 1_000 });
  const archived = await hold.sessions.list({ limit: 1_000, archived: true });
  seen.push(sessions, archived.items);
  for (const { id } of [...sessions, ...archived.items]) {
    const { items: checkpoints } = await hold.checkpoints.list(id, {
      limit: 1_000,
      branches: "all",
    });
    seen.push(checkpoints);
    for (const checkpoint of checkpoints) {
      const there = await hold.checkpoints.state(checkpoint.id);
      seen.push(there);
      for (const { content } of there.messages)
        for (const part of typeof content === "string" ? [] : content)
          if (part.type === "file" && "digest" in part.data)
            seen.push(
              Buffer.from((await hold.blob(String(part.data.digest))) ?? []).toString("latin1"),
            );
    }
    seen.push(await hold.sessions.state(id));
    for await (const event of hold.sessions.events(id, { live: false })) seen.push(event);
  }
  for (const status of ["waiting", "in-doubt"] as const)
    seen.push((await hold.effects.list({ status })).items);
  const { items: agents } = await hold.agents.list({ limit: 1_000 });
  seen.push(agents);
  for (const { id } of agents) seen.push((await hold.agents.snapshots(id)).items);
  const rows: string[] = [];
  for await (const row of hold.export()) rows.push(row);
  return `${JSON.stringify(seen)}\n${rows.join("")}`;
}

/** Where the store keeps a text: its files, or tables. Nothing of a store that keeps nothing. */
export async function kept(
  { name }: Pick<StoreKind, "name">,
  address: string,
  text: string,
): Promise<readonly string[]> {
  if (name === "memory") return [];
  if (name !== "postgres") return filesWith(address, text);
  const admin = new PgClient({
    connectionString: postgresUrl().replace(/\/\/\w+@/, "//postgres@"),
  });
  await admin.connect();
  try {
    const schema = new URL(address).searchParams.get("schema") as string;
    const found: string[] = [];
    const tables = await admin.query("SELECT tablename FROM pg_tables WHERE schemaname = $1", [
      schema,
    ]);
    for (const { tablename } of tables.rows) {
      const { rows } = await admin.query(
        `SELECT to_jsonb(t)::text AS row FROM "${schema}"."${String(tablename)}" t`,
      );
      const forms = [text, JSON.stringify(text).slice(1, -1), Buffer.from(text).toString("hex")];
      if (rows.some(({ row }) => forms.some((form) => String(row).includes(form))))
        found.push(String(tablename));
    }
    return found;
  } finally {
    await admin.end();
  }
}
