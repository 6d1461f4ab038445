/**
 * Which session a text is found in: that which owns its line; where that was deleted and forks keep the line, the one of them that has its
 * checkpoints too (`heirsOf`). Looked up once for each search.
 */
import { HoldfastError } from "../../core/errors.js";
import type { LineId } from "../../core/ids.js";
import type { SessionRow } from "../../store/port.js";
import type { Hit, MessageHit } from "../../store/search-port.js";
import { type Heirs, heirsOf } from "../family.js";
import type { Ground } from "../ground.js";
import { headOf, labelOf } from "../rows.js";

/** What a session must be. */
export interface Wanted {
  readonly agent?: string;
  readonly tag?: string;
}

export class Owners {
  readonly #ground: Ground;
  readonly #wanted: Wanted;
  readonly #sessions = new Map<string, SessionRow | undefined>();
  readonly #heirs = new Map<LineId, Heirs>();

  constructor(ground: Ground, wanted: Wanted) {
    this.#ground = ground;
    this.#wanted = wanted;
  }

  /** Undefined where there is none, or it is not one that was asked for. */
  async of(hit: Hit): Promise<string | undefined> {
    const id = hit.kind === "title" ? hit.session.id : (hit.line.session ?? (await this.#heir(hit)));
    const { agent, tag } = this.#wanted;
    if (id === undefined || (agent === undefined && tag === undefined)) return id;
    return (await this.wanted(id))?.id;
  }

  /** The row of a session; undefined as above. */
  async wanted(id: string): Promise<SessionRow | undefined> {
    if (!this.#sessions.has(id)) {
      const row = await this.#ground.store.session(id);
      this.#sessions.set(id, row && isWanted(row, this.#wanted) ? row : undefined);
    }
    return this.#sessions.get(id);
  }

  /** The session of a line that nobody owns. */
  async #heir({ line, seq }: MessageHit): Promise<string | undefined> {
    const heirs = this.#heirs.get(line.id) ?? (await heirsOf(this.#ground.store, line.id));
    this.#heirs.set(line.id, heirs);
    return heirs(seq);
  }
}

/** What is damaged is nobody's that was asked for. */
function isWanted(row: SessionRow, { agent, tag }: Wanted): boolean {
  try {
    return (agent === undefined || headOf(row).agent === agent) && (tag === undefined || labelOf(row).tags.includes(tag));
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "CORRUPT") return false;
    throw error;
  }
}
