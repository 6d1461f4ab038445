/**
 * What a group of changes would do: every condition is checked here, against what is there and what
 * the changes before it do, and nothing is touched. A plan that is refused leaves no trace (PORT-1).
 */
import { firstSeq } from "../../core/journal/save.js";
import type { BranchId, Place } from "../../core/values/ids.js";
import type { Applied, Change, NewSave, Refusal } from "../port/changes.js";
import { type Decision, type DocChange, PINS_NOTHING } from "../port/documents.js";
import { type DocFiles, type DocStep, filedDoc } from "./documents/doc-files.js";
import type { CatalogEntry } from "./index/session-catalog.js";
import { type BranchDoc, newDoc, type SessionDoc } from "./sessions/session-file.js";

/** What a plan looks at. */
export interface CheckInput {
  readonly lastSession: number;
  readonly lastBranch: number;
  doc(id: string): SessionDoc | undefined;
  branch(id: string): CatalogEntry | undefined;
  /** Branches of a session that stand in the directory of another. */
  awayOf(session: string): readonly CatalogEntry[];
  tail(branch: CatalogEntry): number | undefined;
  /** Of the first save that ends at this number or a higher one. */
  sealAt(
    branch: CatalogEntry,
    seq: number,
  ): { readonly seq: number; readonly check: string; readonly mark?: number } | undefined;
  /** Those of these ids that wait in the session's inbox. */
  waiting(doc: SessionDoc, ids: readonly string[]): readonly string[];
  /** An inbox message that was taken in and is not moved yet. */
  unmoved(doc: SessionDoc): readonly string[];
  readonly documents: Pick<DocFiles, "get" | "isPinned" | "last">;
}

type Draft = { -readonly [K in keyof SessionDoc]: SessionDoc[K] };

export interface Append {
  readonly branch: BranchDoc;
  readonly home: string;
  readonly saves: NewSave[];
}

export class ChangeCheck {
  readonly #input: CheckInput;
  readonly #docs = new Map<string, Draft>();
  /** Branches that begin, and with which session they stand. */
  readonly begun = new Map<string, { readonly home: string; readonly forkPoint: Place | null }>();
  readonly appends = new Map<string, Append>();
  /** What becomes of documents. */
  readonly documents: DocStep[] = [];
  /** What becomes of inbox messages, by session, with what the session was. */
  readonly message: {
    readonly doc: SessionDoc;
    readonly reworded: readonly { id: string; text: string }[];
    readonly forgets: boolean;
  }[] = [];
  /** Sessions that end, as they were. */
  readonly removed: SessionDoc[] = [];
  /** Whether nothing changes but leases. */
  onlyLeases = true;
  #lastSession: number;
  #lastBranch: number;
  #lastDoc: number | undefined;

  constructor(input: CheckInput) {
    this.#input = input;
    this.#lastSession = input.lastSession;
    this.#lastBranch = input.lastBranch;
  }

  /** The files that change, as they will be. */
  get docs(): readonly SessionDoc[] {
    return [...this.#docs.values()];
  }

  version(home: string): number {
    return (this.#docs.get(home) as Draft).version;
  }

  /**
   * Saves of one branch and nothing else: they need no other commit point than the last one's seal.
   */
  get lone(): Append | undefined {
    if (this.#docs.size > 0 || this.documents.length > 0 || this.appends.size !== 1)
      return undefined;
    return this.appends.values().next().value;
  }

  run({ changes, docs }: Decision): Applied {
    for (const [i, change] of changes.entries()) {
      const why = this.#one(change);
      if (why !== undefined) return { ok: false, change: i, why };
    }
    for (const [i, change] of docs.entries()) {
      const why = this.#document(change);
      if (why !== undefined) return { ok: false, change: changes.length + i, why };
    }
    if (this.lone === undefined) for (const { home } of this.appends.values()) this.#draft(home);
    return { ok: true };
  }

  #doc(id: string): SessionDoc | undefined {
    return this.#docs.get(id) ?? this.#input.doc(id);
  }

  #draft(id: string): Draft {
    const known = this.#docs.get(id);
    if (known !== undefined) return known;
    const doc = this.#input.doc(id) ?? newDoc(id);
    const draft = {
      ...doc,
      version: doc.version + 1,
      drained: doc.drained.length === 0 ? [] : this.#input.unmoved(doc),
    };
    this.#docs.set(id, draft);
    return draft;
  }

  #one(change: Change): Refusal | undefined {
    const { session, when, saves = [], drained = [], remove } = change;
    const why = refusal(when, this.#doc(session)) ?? this.#rows(change) ?? this.#branches(change);
    if (why !== undefined) return why;
    for (const fresh of saves) if (!this.#append(fresh)) return "tail";
    this.#inbox(change);
    if (drained.length > 0) this.#drain(session, drained);
    if (remove) this.#bury(session);
    const message = drained.length || change.reworded?.length || change.forgets;
    if (
      change.head ??
      change.label ??
      change.branch ??
      change.loose ??
      change.claims ??
      change.remove ??
      (saves.length || message)
    )
      this.onlyLeases = false;
    return undefined;
  }

  #rows({ session, when, head, label, lease, branch }: Change): undefined {
    if (when.absent) {
      if (head !== undefined && label !== undefined && lease !== undefined) {
        this.#lastSession += 1;
        Object.assign(this.#draft(session), { no: this.#lastSession, head, label, lease });
      } else if (head ?? label ?? lease ?? branch)
        throw new TypeError("a new session needs head, label and lease");
      return;
    }
    if (head !== undefined) this.#draft(session).head = head;
    if (label !== undefined) this.#draft(session).label = label;
    if (lease !== undefined) this.#draft(session).lease = lease;
  }

  #branches({ session, branch, loose, claims = [] }: Change): Refusal | undefined {
    const known = loose && this.#branch(loose.id)?.branch;
    if (known !== undefined && (known.owner !== null || known.text !== loose?.text))
      return "branch";
    const begun = branch ?? (known === undefined ? loose : undefined);
    if (begun !== undefined) {
      const { id, forkPoint, text } = begun;
      if (forkPoint !== null && !this.#canBeginAt(forkPoint, branch === undefined))
        return "forkPoint";
      const no = ++this.#lastBranch;
      const draft = this.#draft(session);
      const owner = branch === undefined ? null : session;
      draft.branches = [
        ...draft.branches.filter((other) => other.id !== id),
        { no, id, forkPoint, owner, text },
      ];
      draft.lastBranch = no;
      this.begun.set(id, { home: session, forkPoint });
    }
    for (const id of claims) {
      const claimed = this.#branch(id);
      if (claimed === undefined || claimed.branch.owner !== null) return "branch";
      this.#own(claimed.home, (other) => other.id === id, session);
    }
    return undefined;
  }

  #own(home: string, which: (branch: BranchDoc) => boolean, owner: string | null): void {
    const draft = this.#draft(home);
    draft.branches = draft.branches.map((branch) =>
      which(branch) ? { ...branch, owner } : branch,
    );
  }

  #branch(id: string): { readonly branch: BranchDoc; readonly home: string } | undefined {
    const home = this.begun.get(id)?.home ?? this.#input.branch(id)?.home;
    const branch =
      home === undefined ? undefined : this.#doc(home)?.branches.find((other) => other.id === id);
    return branch && { branch, home: home as string };
  }

  #append(fresh: NewSave): boolean {
    const { save } = fresh;
    const staged = this.appends.get(save.branch);
    const found = staged ?? this.#branch(save.branch);
    if (found === undefined) return false;
    const tail = this.#tail(save.branch) ?? found.branch.forkPoint?.seq ?? 0;
    if (tail !== firstSeq(save) - 1)
      return this.#sealAt(save.branch, save.seq)?.check === save.check;
    if (staged !== undefined) staged.saves.push(fresh);
    else this.appends.set(save.branch, { ...found, saves: [fresh] });
    return true;
  }

  #tail(branch: BranchId): number | undefined {
    const staged = this.appends.get(branch)?.saves.at(-1)?.save.seq;
    const standing = this.#input.branch(branch);
    return staged ?? (standing && this.#input.tail(standing));
  }

  #sealAt(
    branch: BranchId,
    seq: number,
  ): { readonly seq: number; readonly check: string; readonly mark?: number } | undefined {
    const standing = this.#input.branch(branch);
    const found = standing && this.#input.sealAt(standing, seq);
    if (found !== undefined) return found;
    const save = this.appends.get(branch)?.saves.find((fresh) => fresh.save.seq >= seq)?.save;
    return (
      save && {
        seq: save.seq,
        check: save.check,
        ...(save.mark === null ? undefined : { mark: save.mark.length }),
      }
    );
  }

  #canBeginAt(place: Place, isLoose: boolean): boolean {
    const seal = this.#sealAt(place.branch, place.seq);
    return (
      seal?.seq === place.seq &&
      (isLoose || seal.mark !== undefined || this.#input.documents.isPinned(place))
    );
  }

  #document({ kind, id, when, put, remove }: DocChange): Refusal | undefined {
    const staged = this.documents.findLast((step) => step.kind === kind && step.id === id);
    const there =
      staged === undefined
        ? this.#input.documents.get(kind, id)
        : "put" in staged
          ? staged.put
          : undefined;
    if (when.absent && there !== undefined) return "exists";
    if (!when.absent && there === undefined) return "absent";
    if (when.version !== undefined && there?.version !== when.version) return "version";
    this.onlyLeases = false;
    if (remove && there !== undefined) this.documents.push({ kind, id, ends: there.no });
    if (put === undefined) return undefined;
    if (put.pins.length > 0 && PINS_NOTHING.has(kind))
      throw new TypeError(`a document of kind ${kind} cannot pin a place`);
    if (!put.pins.every(({ branch, seq }) => this.#sealAt(branch, seq)?.seq === seq))
      return "forkPoint";
    const known = remove ? undefined : there;
    // One that is damaged has no number, and is made anew.
    if (known === undefined || known.no < 0) {
      this.#lastDoc = (this.#lastDoc ?? this.#input.documents.last) + 1;
      this.documents.push({ kind, id, put: filedDoc(kind, id, this.#lastDoc, put) });
    } else
      this.documents.push({
        kind,
        id,
        put: { ...filedDoc(kind, id, known.no, put), pins: known.pins },
      });
    return undefined;
  }

  #inbox({ session, reworded = [], forgets: forgetsAll }: Change): void {
    const forgets = forgetsAll === true;
    const doc = reworded.length > 0 || forgets ? this.#doc(session) : undefined;
    if (doc === undefined) return;
    this.#draft(session);
    this.message.push({ doc, reworded, forgets });
  }

  #drain(session: string, ids: readonly string[]): void {
    const doc = this.#doc(session);
    const waiting =
      doc === undefined
        ? []
        : this.#input.waiting(doc, ids).filter((id) => !doc.drained.includes(id));
    if (waiting.length === 0) return;
    const draft = this.#draft(session);
    draft.drained = [...draft.drained, ...waiting];
  }

  #bury(session: string): void {
    const doc = this.#doc(session) as SessionDoc;
    this.removed.push(doc);
    Object.assign(this.#draft(session), {
      head: null,
      label: null,
      lease: null,
      buried: doc.lease?.epoch ?? 0,
      drained: [],
    });
    const homes = new Set([
      session,
      ...this.#input.awayOf(session).map(({ home }) => home),
      ...this.#docs.keys(),
    ]);
    for (const home of homes)
      if (this.#doc(home)?.branches.some(({ owner }) => owner === session))
        this.#own(home, ({ owner }) => owner === session, null);
  }
}

function refusal(when: Change["when"], doc: SessionDoc | undefined): Refusal | undefined {
  const there = doc !== undefined && doc.lease !== null && doc.label !== null;
  if (when.absent) {
    if (there) return "exists";
    return when.buried !== undefined && when.buried !== (doc?.buried ?? 0) ? "epoch" : undefined;
  }
  if (!there) return "absent";
  if (when.epoch !== undefined && doc.lease?.epoch !== when.epoch) return "epoch";
  if (when.until !== undefined && doc.lease?.until !== when.until) return "until";
  if (when.version !== undefined && doc.label?.version !== when.version) return "version";
  return undefined;
}
