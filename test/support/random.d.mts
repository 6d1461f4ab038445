export interface Random {
  next(): number;
  between(from: number, to: number): number;
  whole(from: number, to: number): number;
  pick<T>(list: readonly T[]): T;
  weighted(weights: Readonly<Record<string, number>>): string;
}
export function random(seed: number): Random;
export const SEED: number;
