/**
 * Whether Holdfast takes something, found out in a store that is thrown away: where it is refused,
 * nothing must have been done for it before, as that would be done again each time.
 */
import {
  type CheckpointOptions,
  type Holdfast,
  open,
  type SessionUpdate,
  type SnapshotOptions,
} from "../../index.js";
import type { Content } from "../reading/model.js";
import { saveStep } from "./save-step.js";

export class Trial {
  #hold: Holdfast | undefined;

  /** Throws what saving it would throw. */
  async step(content: Content, mark: CheckpointOptions): Promise<void> {
    const hold = await this.#store();
    const session = await hold.session("trial");
    try {
      await saveStep(session, content, mark);
    } finally {
      await session.close({ discard: true });
      await hold.sessions.delete("trial");
    }
  }

  /** Throws what writing it would throw. */
  async label(label: SessionUpdate): Promise<void> {
    await (await this.#store()).sessions.update("label", label, { create: true });
  }

  /** Throws what taking it would throw. */
  async snapshot(about: SnapshotOptions): Promise<void> {
    const hold = await this.#store();
    await hold.agents.save({ id: "trial" });
    await hold.agents.snapshot("trial", about);
    await hold.agents.delete("trial");
  }

  async #store(): Promise<Holdfast> {
    this.#hold ??= await open("memory:", { search: false });
    return this.#hold;
  }

  async close(): Promise<void> {
    await this.#hold?.close();
  }
}
