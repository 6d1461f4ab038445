/** Seal records into a save. */
import { type Digest, digest } from "../values/digest.js";
import type { BranchId } from "../values/ids.js";
import type { Save } from "./save.js";
import { CHECK_CHARS, chain, inChain } from "./save-digest.js";
import { section } from "./save-section.js";

export interface Draft {
  readonly branch: BranchId;
  /** The number of the record before. */
  readonly after: number;
  readonly at: number;
  readonly prior: number;
  readonly base: number;
  readonly prev: Digest;
  readonly items: readonly string[];
  readonly nMessages: number;
  readonly state: readonly string[];
  readonly mark: string | null;
  /** Gives a fresh random salt at every call. */
  readonly salt: () => string;
}

export function seal(draft: Draft): { readonly save: Save; readonly digest: Digest } {
  const { branch, after, at, prior, base, prev, nMessages, mark, salt } = draft;
  const nMark = mark === null ? 0 : 1;
  const items = section(draft.items, salt);
  const state = section(draft.state, salt);
  const save = {
    branch,
    seq: after + draft.items.length + draft.state.length + nMark,
    at,
    nItems: draft.items.length,
    nState: draft.state.length,
    nMark,
    nMessages,
    prior,
    base,
    prev,
    itemsDigest: items === null ? null : digest(items),
    stateDigest: state === null ? null : digest(state),
    items,
    state,
    mark,
    note: null,
    check: "",
  };
  const sealed = chain(save, mark === null ? "" : inChain(mark));
  save.check = sealed.slice(0, CHECK_CHARS);
  return { save, digest: sealed };
}
