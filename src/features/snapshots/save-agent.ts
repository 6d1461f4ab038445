/** Make an agent's record, or change it: whole, or one key of its state. */
import { HoldfastError, pathTo, quote } from "../../core/values/errors.js";
import { checkName } from "../../core/values/ids.js";
import { encode, type Json } from "../../core/values/json.js";
import { once, type Receipt } from "../../engine/journal/receipts.js";
import { redacted } from "../../engine/journal/redact-agent.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import {
  type AgentInput,
  type AgentRecord,
  agentOf,
  type CheckedAgent,
  checkAgent,
  emptyAfter,
  noAgent,
  putAgent,
  recordOf,
  requireAgent,
  soundAgent,
} from "../../engine/records/agent-record.js";
import { type KeyOptions, options } from "../../engine/util/validate.js";
import { documentsOf } from "../../store/capabilities.js";
import { AGENT } from "../../store/port/documents.js";

export async function saveAgent(
  ctx: StoreContext,
  agent: AgentInput,
  o: KeyOptions | undefined,
): Promise<AgentRecord> {
  const { key } = options(o, "agents.save", ["key"]);
  const checked = checkAgent(agent);
  return once<number, AgentRecord>(
    ctx,
    { key, name: "agents.save", to: checked.id, args: agent },
    (receipt) => putChecked(ctx, checked, receipt),
    async () => recordOf(await requireAgent(ctx.store, checked.id)),
  );
}

export async function setStateKey(
  ctx: StoreContext,
  id: string,
  { key, value }: { readonly key: string; readonly value: Json },
  o: KeyOptions | undefined,
): Promise<AgentRecord> {
  const name = checkName(key, "state key");
  const { value: copy } = encode(value, pathTo("state", name));
  return editState(
    ctx,
    { name: "agents.set", id, args: { set: Object.fromEntries([[name, copy]]) } },
    o,
  );
}

export async function unsetStateKey(
  ctx: StoreContext,
  id: string,
  key: string,
  o: KeyOptions | undefined,
): Promise<AgentRecord> {
  return editState(
    ctx,
    { name: "agents.unset", id, args: { unset: [checkName(key, "state key")] } },
    o,
  );
}

interface Edit {
  /** The public call, for errors and receipts. */
  readonly name: string;
  readonly id: string;
  readonly args: Pick<AgentInput, "set" | "unset">;
}

async function editState(
  ctx: StoreContext,
  { name, id: given, args }: Edit,
  o: KeyOptions | undefined,
): Promise<AgentRecord> {
  const { key } = options(o, name, ["key"]);
  const checked = checkAgent({ id: given, ...args });
  const { id } = checked;
  return once<number, AgentRecord>(
    ctx,
    { key, name, to: id, args },
    (receipt) => putChecked(ctx, checked, receipt, { makes: false }),
    async () => recordOf(await requireAgent(ctx.store, id)),
  );
}

async function putChecked(
  ctx: StoreContext,
  { id, version, isEdit, next }: CheckedAgent,
  receipt: Receipt<number>,
  { makes = true } = {},
): Promise<AgentRecord> {
  for (;;) {
    const row = await documentsOf(ctx.store).get(AGENT, id);
    if (row === undefined && !makes) throw noAgent(id);
    const now = ctx.wallMs();
    // Of a damaged record an edit would keep nothing but itself.
    const before =
      row &&
      (version === undefined && !isEdit ? (soundAgent(row) ?? emptyAfter(row, now)) : agentOf(row));
    const found = before?.version ?? 0;
    if (version !== undefined && version !== found) throw conflict(id, version, found);
    const after = redacted(ctx.redactor, next(before, now));
    const applied = await ctx.store.apply(
      [],
      [putAgent(after, row), ...receipt.docs(after.version)],
    );
    if (applied.ok) return recordOf(after);
    receipt.check(applied, 1);
    // Another process saved the record in between: read it again, and change that.
  }
}

const conflict = (id: string, version: number, found: number): HoldfastError =>
  new HoldfastError(
    "CONFLICT",
    `Agent ${quote(id)} is at version ${found}, and this save is of version ${version}: somebody else saved it. Read it again.`,
    { found },
  );
