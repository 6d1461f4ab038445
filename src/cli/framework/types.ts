/** Types of the library that belong to one call each, and so have no name of their own there. */
import type {
  Agents,
  Checkpoints,
  Effects,
  Holdfast,
  Message,
  Retention,
  RetentionPolicy,
  Sessions,
} from "../../index.js";

type Answer<F extends (...args: never) => unknown> = Awaited<ReturnType<F>>;

export type Role = Message["role"];
export type EffectPage = Answer<Effects["list"]>;
export type EffectPolicy = NonNullable<NonNullable<Parameters<Sessions["fork"]>[1]>["effects"]>;
export type SessionState = Answer<Sessions["state"]>;
export type CheckpointState = Answer<Checkpoints["state"]>;
export type RestoreReport = Answer<Agents["restore"]>;
export type RetentionReport = Answer<Retention["apply"]>;
export type RetentionRules = Omit<RetentionPolicy, "snapshots">;
export type SearchFilter = NonNullable<Parameters<Sessions["search"]>[1]>;
export type FoundItem = Answer<Sessions["search"]>["items"][number];
export type IndexProgress = Told<NonNullable<Parameters<Sessions["index"]>[0]>["onProgress"]>;
export type ExportFilter = NonNullable<Parameters<Holdfast["export"]>[0]>;
type ExportOptions = NonNullable<Parameters<Holdfast["export"]>[1]>;
export type TransferProgress = Told<ExportOptions["onProgress"]>;
export type LeftOut = Told<ExportOptions["onLeftOut"]>;
export type ToolsOptions = NonNullable<Parameters<Holdfast["tools"]>[0]>;

/** What a function that is given as an option is told. */
type Told<F> = NonNullable<F> extends (told: infer T) => void ? T : never;
