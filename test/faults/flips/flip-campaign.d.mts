import type { Files, Ids, Judgement, Rule } from "./flip-store.mjs";

export interface Damage {
  readonly suffix: string;
  readonly bit?: number;
  readonly length?: number;
}
export interface Sound {
  readonly files: Readonly<Record<string, string>>;
  readonly ids: Ids;
  readonly rule: Rule;
}
export interface DamageResult {
  readonly jobs: number;
  readonly harmless: number;
  readonly found: number;
  readonly wrong: readonly (Judgement & { readonly job: Damage })[];
}
export function damageAll(options: {
  readonly store: Sound;
  readonly jobs: readonly Damage[];
  readonly workers?: number;
  readonly onProgress?: (done: number, result: DamageResult) => void;
}): Promise<DamageResult>;
export function spread(
  suffix: string,
  bytes: number,
  count: number,
  rng: { next(): number },
): Damage[];
export function frameBits(path: string, count: number, rng: { next(): number }): Damage[];
export function cartographer(path: string): (job: Damage) => string;
export function classes(wrong: DamageResult["wrong"], where: (job: Damage) => string): string[];
export function keep(
  directory: string,
  name: string,
  files: Files,
): Readonly<Record<string, string>>;
/** The small store, closed cleanly. */
export function soundStore(
  directory: string,
): Promise<{ readonly store: Sound; readonly files: Files; readonly path: string }>;
/** A store whose process was killed: the log holds saves that an anchor knows of, and others. */
export function killedStore(
  directory: string,
): Promise<{ readonly store: Sound; readonly files: Files; readonly path: string }>;
