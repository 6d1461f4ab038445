/**
 * What the four systems have in common: sessions made of steps, each the whole state at one moment,
 * and records of agents. Readers make this of files, lightly; the contents of a step are loaded
 * when it is written.
 */
import type {
  AgentInput,
  CheckpointOptions,
  JsonObject,
  MessageInput,
  SnapshotOptions,
} from "../../index.js";
import type { Report } from "./report.js";

/** The systems whose files can be imported. */
export const KINDS = ["ares", "ccswarm", "smooth", "aethershell"] as const;
/** A system whose files can be imported. */
export type MigrationKind = (typeof KINDS)[number];

/** All of a session at one moment. */
export interface Content {
  readonly messages?: readonly MessageInput[];
  readonly state?: JsonObject;
  /** Where the session came to rest with it. */
  readonly end?:
    | { readonly as: "complete" }
    | { readonly as: "fail" | "halt"; readonly reason: string };
  readonly mark?: Omit<CheckpointOptions, "metadata">;
  /** Their metadata, and what else is to be known of where it came from. */
  readonly metadata?: JsonObject;
  readonly source?: JsonObject;
}

/** What a source says of a session beside its steps. */
export interface Words {
  readonly title?: string;
  readonly tags?: readonly string[];
  readonly archived?: boolean;
  readonly metadata?: JsonObject;
  /** What else is to be known of where it came from. */
  readonly source?: JsonObject;
}

export interface Step {
  /** Their id, and a digest of what they wrote: together they are how it is known again. */
  readonly id: string;
  readonly digest: string;
  /** Milliseconds; undefined where they say none that can be. */
  readonly at: number | undefined;
  /** The id of the step that it follows; otherwise it follows the one before it. */
  readonly parent?: string;
  readonly path: string;
  readonly bytes: number;
  /**
   * What the source said of the session then, where a step says it: a snapshot of that time notes
   * it.
   */
  readonly words?: Words;
  /** Another file that says the same, and is not written again. */
  readonly twin?: { readonly path: string; readonly bytes: number };
  readonly load: () => Promise<Content>;
}

/** With what is said of it now. */
export interface ForeignSession extends Words {
  /** Ours, and theirs. */
  readonly id: string;
  readonly foreign: string;
  readonly agent?: string;
  /**
   * What tells it from another session of the same id, where they say it: otherwise its steps do.
   */
  readonly identity?: string;
  /** When it was begun. */
  readonly at: number | undefined;
  /** The step of another session at which it begins. */
  readonly forkPoint?: { readonly session: string; readonly step: string };
  readonly steps: readonly Step[];
  /** The step at which it stands, where they say it. */
  readonly current?: Step;
}

/** A record of an agent, and the snapshot of the agent that goes with it. */
export interface ForeignRecord {
  readonly agent: string;
  /** What tells it from another agent of the same id. */
  readonly identity: string;
  readonly digest: string;
  readonly at: number | undefined;
  readonly path: string;
  readonly bytes: number;
  readonly load: () => Promise<
    Omit<AgentInput, "id" | "version" | "metadata"> & { metadata?: JsonObject; source?: JsonObject }
  >;
  readonly snapshot?: Pick<SnapshotOptions, "name" | "description" | "kind"> & {
    readonly id: string;
    readonly at: number | undefined;
    /** Loaded when it is written, as steps are. */
    readonly source: () => Promise<JsonObject>;
  };
}

/** What is done, in this order. */
export type Act =
  | { readonly does: "session"; readonly session: ForeignSession }
  | { readonly does: "step"; readonly session: ForeignSession; readonly step: Step }
  | { readonly does: "record"; readonly record: ForeignRecord };

export interface Foreign {
  readonly acts: readonly Act[];
  /** Frees what was made to read it. */
  readonly close?: () => Promise<void>;
}

/** What a reader is given. */
export interface Reading {
  readonly root: string;
  readonly report: Report;
  readonly signal: AbortSignal | undefined;
  /** What a session that is here already says of where it came from. */
  readonly sourceOf: (session: string) => Promise<JsonObject | undefined>;
}

/** The acts for sessions that have nothing to do with one another: one after the other. */
export const oneAfterAnother = (sessions: readonly ForeignSession[]): readonly Act[] =>
  sessions.flatMap((session) => [
    { does: "session", session } as const,
    ...session.steps.map((step) => ({ does: "step", session, step }) as const),
  ]);
