/** Whether Holdfast takes a step, found out in a store that is thrown away: one that is refused must not have moved its session before. */
import { type CheckpointOptions, type Holdfast, open } from "../index.js";
import type { Content } from "./model.js";
import { saveStep } from "./save-step.js";

export class Trial {
  #hold: Holdfast | undefined;

  /** Throws what saving it would throw. */
  async step(content: Content, mark: CheckpointOptions): Promise<void> {
    this.#hold ??= await open("memory:", { search: false });
    const session = await this.#hold.session("trial");
    try {
      await saveStep(session, content, mark);
    } finally {
      await session.close({ discard: true });
      await this.#hold.sessions.delete("trial");
    }
  }

  async close(): Promise<void> {
    await this.#hold?.close();
  }
}
