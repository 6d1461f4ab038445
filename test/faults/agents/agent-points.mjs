/**
 * Where a child stands still to be killed: around the commits of its store, and wherever its tools
 * say so.
 */

import { hear, say } from "../../support/children/said.mjs";
import { wrapped } from "./agent-broken.mjs";

/**
 * When something was, by a clock that all processes of the machine share: so what came first is
 * known, whoever did it.
 */
export const instant = () => Number(process.hrtime.bigint() / 1_000n);

/** By what a save carries: the points before and after it is committed. */
const AROUND = {
  '"is":"intent"': ["before-intent", "after-intent"],
  '"is":"begun"': ["before-begun", "after-begun"],
  '"is":"done"': ["after-tool", "after-outcome"],
  '"is":"doubt"': ["before-doubt", "after-doubt"],
  '"is":"waits"': ["before-wait", "after-wait"],
  '"is":"approved"': ["before-approval", "after-approval"],
  '"is":"signalled"': ["before-signal", "after-signal"],
  '"is":"woken"': ["before-waking", "after-waking"],
  '"child":"': ["before-child", "after-child"],
  '"status":"cancelled"': ["before-cancel", "after-cancel"],
};

const carries = (changes, text) =>
  changes.some(({ saves = [] }) =>
    saves.some(({ save }) => save.state?.includes(text) || save.items?.includes(text)),
  );

export class Points {
  #stopAt;
  #reached = new Map();

  constructor(stopAt) {
    this.#stopAt = stopAt;
  }

  /**
   * Stands still where it was told to, and nothing of this process moves, until it is killed or
   * told to go on.
   */
  at(point) {
    const nth = (this.#reached.get(point) ?? 0) + 1;
    this.#reached.set(point, nth);
    if (this.#stopAt?.point !== point || this.#stopAt.nth !== nth) return;
    say({ at: point });
    while (!hear().go);
  }

  /** The store, with the points around its commits. What it has acknowledged is said at once. */
  around(store) {
    return wrapped(store, {
      apply: async (changes, docs) => {
        const points = Object.keys(AROUND).flatMap((text) =>
          carries(changes, text) ? [AROUND[text]] : [],
        );
        for (const [before] of points) this.at(before);
        const applied = await store.apply(changes, docs);
        const saves = changes.flatMap(({ session, saves = [] }) =>
          saves.map(({ save: { branch: line, seq, check } }) => ({
            session,
            branch: line,
            seq,
            check,
          })),
        );
        if (applied.ok && saves.length > 0) say({ saved: saves, n: instant() });
        if (applied.ok) for (const [, after] of points) this.at(after);
        return applied;
      },
    });
  }
}

/** What goes wrong in a child is said, and ends it. */
export function fail(error) {
  say({ fault: `${error.code ?? error.name}: ${error.message}\n${error.stack}` });
  process.exit(1);
}
