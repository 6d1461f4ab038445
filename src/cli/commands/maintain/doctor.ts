/** `doctor`: what this is, how it is doing, and what to do about what it finds. */
import type { Holdfast, StoreInfo } from "../../../index.js";
import { command } from "../../framework/command.js";
import { type Proposal, propose } from "../../framework/next-steps.js";
import { counted, inline, size } from "../../terminal/text.js";

interface Trouble {
  readonly level: "wrong" | "note";
  readonly code: string;
  readonly message: string;
  readonly fix: string;
}

const MUCH_BEHIND = 1_000;

export const doctor = command({
  name: "doctor",
  group: "keep",
  says: "versions, store, disk, leases, calls in doubt, size and growth; what is wrong, and how to fix it",
  more: "Ends with exit code 1 where something is wrong. Whether what is stored is sound is verify's to say. It warns of files that others can read, and of file systems that may be on a network. Of Postgres it says where row level security does not hold, and whether a connection to another machine has no TLS.",
  async run({ terminal, hold, line, version }) {
    const store = await hold();
    const about = await store.info();
    const stats = await store.stats();
    const policy = await anyPolicy(store);
    const troubles = troublesIn(about, stats.sizeBytes, policy, line);
    const { paint } = terminal;
    const { sessions, leases } = about;
    const perDay =
      sessions.looked === 0 ? 0 : (stats.sizeBytes * sessions.lastWeek) / sessions.looked / 7;
    const facts: readonly (readonly [string, string])[] = [
      [
        "holdfast",
        `${version}, Node ${process.versions.node}, ${process.platform} ${process.arch}`,
      ],
      ["store", `${about.kind}, ${inline(about.place)}`],
      [
        "kept by",
        `${about.engine}, format ${about.format}${about.generation === undefined ? "" : `, put back from a copy (generation ${about.generation})`}`,
      ],
      ["synced", about.synced],
      [
        "index",
        about.index === undefined
          ? "none: it is made by the first search"
          : about.index.behind === 0
            ? "up to date"
            : `about ${counted(about.index.behind, "save")} behind`,
      ],
      [
        "sessions",
        `${counted(sessions.looked, "session")}${
          sessions.looked === 0
            ? ""
            : `: ${Object.entries(sessions.byStatus)
                .map(([status, count]) => `${count} ${status}`)
                .join(", ")}`
        }`,
      ],
      ["leases", `${leases.counts.held} held, ${leases.counts.abandoned} left behind`],
      [
        "size",
        `${size(stats.sizeBytes)} stored${about.diskBytes === undefined ? "" : `, ${size(about.diskBytes)} on the disk`}`,
      ],
      [
        "growth",
        `${counted(sessions.lastWeek, "session")} in 7 days, about ${size(Math.round(perDay))} a day`,
      ],
    ];
    const wrong = troubles.filter(({ level }) => level === "wrong");
    return {
      json: {
        holdfast: version,
        node: process.versions.node,
        platform: `${process.platform} ${process.arch}`,
        store: about,
        stats,
        growthBytesPerDay: Math.round(perDay),
        findings: troubles,
        ok: wrong.length === 0,
      },
      lines: [
        ...facts.map(([name, fact]) => `${paint.dim(name.padEnd(10))} ${fact}`),
        ...leases.held
          .slice(0, 5)
          .map(({ sessionId, holder, remainingMs }) =>
            paint.dim(
              `           ${inline(sessionId)} is held by ${inline(holder)}, for ${Math.ceil(remainingMs / 1_000)} s unless renewed`,
            ),
          ),
        "",
        ...troubles.flatMap(({ level, code, message, fix }) => [
          `${level === "wrong" ? paint.red("wrong") : paint.yellow("note ")} ${code}  ${inline(message)}`,
          `      ${paint.cyan(inline(fix))}`,
        ]),
        wrong.length > 0
          ? `${counted(wrong.length, "thing is", "things are")} wrong.`
          : paint.green("Nothing is wrong."),
      ],
      next: [propose("verify")],
      exit: wrong.length > 0 ? 1 : 0,
      pages: true,
    };
  },
});

async function anyPolicy(store: Holdfast): Promise<boolean> {
  return (await store.retention.get()) !== undefined;
}

const OF_THE_STORE_THAT_HARM: ReadonlySet<string> = new Set([
  "NOT_SYNCED",
  "LITTLE_ROOM",
  "OPEN_TO_OTHERS",
]);
const LARGE_BYTES = 1_000_000_000;

function troublesIn(
  about: StoreInfo,
  sizeBytes: number,
  hasPolicy: boolean,
  line: (proposal: Proposal) => string,
): readonly Trouble[] {
  const { sessions, leases, index, concerns } = about;
  const troubles: Trouble[] = concerns.map((concern) => ({
    level: OF_THE_STORE_THAT_HARM.has(concern.code) ? "wrong" : "note",
    ...concern,
  }));
  const inDoubt = sessions.byStatus["in-doubt"] ?? 0;
  if (sessions.damaged > 0)
    troubles.push({
      level: "wrong",
      code: "DAMAGED",
      message: `${counted(sessions.damaged, "session")} cannot be read.`,
      fix: line(propose("verify")),
    });
  if (inDoubt > 0)
    troubles.push({
      level: "wrong",
      code: "IN_DOUBT",
      message: `${counted(inDoubt, "session")} cannot go on: nobody knows whether a call happened.`,
      fix: line(propose("effects", [], { status: "in-doubt" })),
    });
  if ((sessions.byStatus["waiting"] ?? 0) > 0)
    troubles.push({
      level: "note",
      code: "WAITING",
      message: `${counted(sessions.byStatus["waiting"] ?? 0, "session waits", "sessions wait")} for somebody, or for a signal.`,
      fix: line(propose("effects", [], { status: "waiting" })),
    });
  const [left] = leases.abandoned;
  if (left !== undefined)
    troubles.push({
      level: "note",
      code: "LEFT_BEHIND",
      message: `${counted(leases.counts.abandoned, "session was", "sessions were")} held by processes that are gone. Whoever comes next takes them up; their work is safe.`,
      fix: `${line(propose("show", [left]))}   # then run its agent again, or a worker`,
    });
  if (index !== undefined && index.behind > MUCH_BEHIND)
    troubles.push({
      level: "note",
      code: "INDEX_BEHIND",
      message: `The index for search is about ${counted(index.behind, "save")} behind.`,
      fix: line(propose("search", ["anything"])),
    });
  if (sizeBytes > LARGE_BYTES && !hasPolicy)
    troubles.push({
      level: "note",
      code: "GROWS",
      message: `${size(sizeBytes)} are stored, and no policy says what may go.`,
      fix: line(propose("prune", [], { all: true, daily: 30, weekly: 52, "dry-run": true })),
    });
  return troubles;
}
