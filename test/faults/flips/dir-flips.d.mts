export interface FileDamage {
  readonly file: string;
  readonly bit?: number;
  readonly length?: number;
}
export function makeSmall(path: string): Promise<void>;
export function idsOf(path: string): Promise<{
  readonly sessions: string[];
  readonly checkpoints: string[];
  readonly blobs: string[];
}>;
export function filesIn(path: string): string[];
export function damagedCopy(from: string, to: string, damage: FileDamage): void;
