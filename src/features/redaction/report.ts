/** What a redaction answers: what it has changed, and all that may still hold the text. */
import { quote } from "../../core/values/errors.js";
import type { SessionId } from "../../core/values/ids.js";
import type { Name, Seen } from "./rewrite-saves.js";

/** What a redaction has changed, and where the text could not be removed. */
export interface RedactReport {
  /** Records that were changed, and the saves they stand in. */
  readonly records: number;
  readonly saves: number;
  /** Bodies and files that others were put in the place of. */
  readonly blobs: number;
  /**
   * Whether something beside the journal was changed: title, tags, metadata, reason, or inbox
   * messages that wait.
   */
  readonly outside: boolean;
  /** Other sessions that share what was changed. They were gone over whole. */
  readonly sharedWith: readonly string[];
  /**
   * Other forks, and sessions that calls ran, that hold it. These were not changed: redact them,
   * too.
   */
  readonly others: readonly string[];
  /**
   * Calls that are not over: their inputs were left as they are. Redact again once they are
   * settled.
   */
  readonly exempt: readonly string[];
  /** Names that hold it and by which things are known: they stay. At most 100. */
  readonly names: readonly Name[];
  /** Bodies that hold it and stay, because other sessions need them. */
  readonly keptBlobs: readonly string[];
  /**
   * All that may still hold it, in words: also what the fields above name. Empty: nothing is left
   * of what the session said. Sessions that are neither forks of it nor run by its calls are not
   * looked at. A dry run does not know what going over the store's files would leave.
   */
  readonly left: readonly string[];
}

const MAX_NAMED = 20;

/**
 * What other fields of the report name, said once more: `left` is empty only where nothing is left.
 */
export function inReport(
  { exempt, names, others: holders }: Seen,
  others: readonly SessionId[],
  keptBlobs: readonly string[],
): readonly string[] {
  const named =
    others.slice(0, MAX_NAMED).map(quote).join(", ") + (others.length > MAX_NAMED ? ", …" : "");
  return [
    ...(exempt.size > 0
      ? ["inputs of calls that are not over (`exempt`): settle the calls, then redact again."]
      : []),
    ...(names.length > 0
      ? [
          "names by which things are known (`names`): these cannot be changed. Deleting the session removes them, but for its id.",
        ]
      : []),
    ...(keptBlobs.length > 0
      ? ["bodies that other sessions hold, too (`keptBlobs`): redact those sessions."]
      : []),
    ...(others.length > 0
      ? [`what other sessions said themselves (\`others\`): redact ${named}, too.`]
      : []),
    ...(holders.has(null)
      ? [
          "what a deleted session said, which a fork or a snapshot still needs: delete these, and run gc.",
        ]
      : []),
  ];
}

/** An agent, and where what is kept of it holds the text. It is not the session's: it stays. */
export interface InAgent {
  readonly agent: string;
  readonly isInRecord: boolean;
  readonly snapshots: readonly string[];
}

/** What may still hold the text beside the journal. */
export function besideJournal(
  inAgent: InAgent | undefined,
  damagedSnapshots: readonly string[],
  isInboxLeft: boolean,
): readonly string[] {
  const left: string[] = [];
  if (isInboxLeft)
    left.push(
      "messages that wait to be appended, or are being sent: redact again once they are taken in.",
    );
  const also = "then run gc with scrub.";
  if (inAgent?.isInRecord)
    left.push(`what is kept of agent ${quote(inAgent.agent)}: save the agent anew, ${also}`);
  if (inAgent !== undefined && inAgent.snapshots.length > 0)
    left.push(
      `what snapshots keep of agent ${quote(inAgent.agent)}, or of forks: delete ${inAgent.snapshots.map(quote).join(", ")}, ${also}`,
    );
  for (const id of damagedSnapshots)
    left.push(
      `what snapshot ${quote(id)} says of sessions: it is damaged, and could not be gone over. Delete it.`,
    );
  return left;
}
