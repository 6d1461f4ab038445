export interface Ids {
  readonly sessions: readonly string[];
  readonly checkpoints: readonly string[];
  readonly blobs: readonly string[];
}
export type Files = Readonly<Record<string, Uint8Array>>;
export type Answers = ReadonlyMap<
  string,
  { readonly value?: unknown; readonly error?: string; readonly raw?: string }
>;
/** Without `tailOf` nothing may be missing; with it, what was not witnessed may be. */
export interface Rule {
  readonly tailOf?: {
    readonly anchored: readonly string[];
    readonly checkpoints: readonly string[];
  };
}
export interface Judgement {
  readonly verdict: "harmless" | "found" | "wrong";
  readonly wrong: readonly string[];
  readonly reported: boolean;
}
export function makeStore(path: string): Promise<void>;
export function idsOf(path: string): Promise<Ids>;
export function askAll(path: string, ids: Ids): Promise<Answers>;
export function judge(truth: Answers, answers: Answers, rule?: Rule): Judgement;
export function place(path: string, files: Files): void;
