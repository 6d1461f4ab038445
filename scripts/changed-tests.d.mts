import type { Source } from "./house-facts.mjs";

export function comparedWith(words: readonly string[]): string | undefined;
export function changedSince(commit: string): readonly string[] | undefined;
export function testsOf(changed: readonly string[], tests: readonly Source[]): readonly string[];
