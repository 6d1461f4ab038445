/**
 * Which stores are open in this process. Systems forget every lock that a process has on a file when the process closes it anywhere: one that
 * is open here must not be opened and closed again behind SQLite's back, not even to look at its first bytes.
 */
import { identityOf } from "../../presence.js";

/** By device and inode, with how often. */
const openHere = new Map<string, number>();

/** Keeps a file among those that are open here. Answers how to end that. */
export function stay(key: string): () => void {
  openHere.set(key, (openHere.get(key) ?? 0) + 1);
  return () => {
    const left = (openHere.get(key) ?? 1) - 1;
    if (left === 0) openHere.delete(key);
    else openHere.set(key, left);
  };
}

export const isOpenHere = (file: string): boolean => openHere.has(identityOf(file));
