// biome-ignore lint/suspicious/noExplicitAny: what children say is checked by the tests that hear
// it
export type Line = any;
export interface Child {
  readonly pid: number;
  readonly lines: readonly Line[];
  readonly closed: Promise<{ readonly code: number | null; readonly signal: string | null }>;
  readonly ended: { readonly code: number | null; readonly signal: string | null } | undefined;
  readonly stderr: string;
  tell(message: object): void;
  signal(name: NodeJS.Signals): boolean;
  heard(
    fits: (line: Line) => boolean,
    options?: { readonly from?: number; readonly withinMs?: number },
  ): Promise<Line>;
  ask(
    message: { readonly do: string; readonly [key: string]: unknown },
    options?: { readonly withinMs?: number },
  ): Promise<Line>;
  end(): Promise<void>;
}
export interface StartOptions {
  readonly command?: readonly string[];
  readonly args?: readonly string[];
}
export function start(script: URL, options?: StartOptions): Child;
export function startPuppet(options?: StartOptions): Child;
