/** The head of a session that is held, and whether it differs from the one in the store. */
import type { SessionStatus } from "../../core/sessions/status.js";
import type { HeadDoc } from "../records/rows.js";

export class WorkingHead {
  #doc: HeadDoc;
  #isChanged = false;

  constructor(doc: HeadDoc) {
    this.#doc = doc;
  }

  get doc(): HeadDoc {
    return this.#doc;
  }

  #change(doc: HeadDoc): void {
    this.#doc = doc;
    this.#isChanged = true;
  }

  /** The head, where it changed since it was last taken. */
  take(): HeadDoc | undefined {
    const doc = this.#isChanged ? this.#doc : undefined;
    this.#isChanged = false;
    return doc;
  }

  /** What was taken could not be written. */
  again(): void {
    this.#isChanged = true;
  }

  isOf(generation: string): boolean {
    return (this.#doc.generation ?? "") === generation;
  }

  joins(generation: string): void {
    const { generation: _before, ...doc } = this.#doc;
    this.#change(generation === "" ? doc : { ...doc, generation });
  }

  title(title: string): void {
    this.#change({ ...this.#doc, title });
  }

  status(status: SessionStatus, reason: string | undefined): void {
    const { reason: _before, ...doc } = this.#doc;
    this.#change({ ...doc, status, ...(reason === undefined ? {} : { reason }) });
  }

  hasChildren(): void {
    if (!this.#doc.children) this.#change({ ...this.#doc, children: true });
  }

  /** From when on a worker may take the session up; undefined where there is nothing to do. */
  due(at: number | undefined): void {
    if (this.#doc.due === at) return;
    const { due: _before, ...doc } = this.#doc;
    this.#change(at === undefined ? doc : { ...doc, due: at });
  }
}
