/** Delete one snapshot, once under a key. */
import { checkName } from "../../core/values/ids.js";
import { onceRemoved } from "../../engine/journal/receipts.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { noSnapshot } from "../../engine/records/snapshot-record.js";
import { type KeyOptions, options } from "../../engine/util/validate.js";
import { SNAPSHOT } from "../../store/port/documents.js";

export async function deleteSnapshot(
  ctx: StoreContext,
  snapshotId: string,
  o: KeyOptions | undefined,
): Promise<void> {
  const { key } = options(o, "agents.deleteSnapshot", ["key"]);
  const id = checkName(snapshotId, "snapshot id");
  await onceRemoved<null, void>(
    ctx,
    { key, name: "agents.deleteSnapshot", to: id, args: {} },
    async (receipt) => {
      const applied = await ctx.store.apply(
        [],
        [{ kind: SNAPSHOT, id, when: {}, remove: true }, ...receipt.docs(null)],
      );
      receipt.check(applied, 1);
      if (!applied.ok) throw noSnapshot(id);
    },
    () => {},
  );
}
