import { command, number, SESSION } from "../../framework/command.js";
import { requireCheckpointOf, requireSessionToChange, short } from "../../framework/ids.js";
import { propose } from "../../framework/next-steps.js";
import type { EffectPolicy } from "../../framework/types.js";
import { counted, inline } from "../../terminal/text.js";
import { effectsOption } from "./fork.js";

export const rewind = command({
  name: "rewind",
  group: "steer",
  says: "puts a session back to one of its checkpoints; what came after is kept, on another branch",
  words: [
    SESSION,
    {
      name: "CHECKPOINT",
      says: "its id, its number, ~1 for the one before the newest, or its label",
      completes: "checkpoint",
    },
  ],
  options: {
    effects: effectsOption,
    wait: number("MS", "how long to wait for whoever holds the session", 0, 86_400_000),
  },
  examples: [["holdfast rewind order-42 12", "to its checkpoint 12"]],
  async run({ words: [word = "", to = ""], options: { effects, wait }, terminal, hold }) {
    const store = await hold();
    const session = await requireSessionToChange(store, word, terminal.isAttended);
    const at = await requireCheckpointOf(store, session, to);
    const rewound = await store.sessions.rewind(session.id, at.id, {
      ...(effects !== undefined && { effects: effects as EffectPolicy }),
      ...(wait !== undefined && { waitMs: wait }),
    });
    const { before, passed } = rewound;
    return {
      json: { session: session.id, to: at, ...rewound },
      lines: [
        `${inline(session.id)} is back at ${short(at.id)}, step ${at.step}, with ${at.messageCount} messages.`,
        ...(passed.length === 0
          ? []
          : [
              `${counted(passed.length, "call")} had been made since; what is asked for again waits for somebody's word${effects === undefined || effects === "ask" ? "" : `, but here: ${effects}`}:`,
              ...passed.map(
                ({ name, outcome, effectId }) =>
                  `  ${terminal.paint.bold(inline(name))}  ${outcome}  ${terminal.paint.dim(effectId)}`,
              ),
            ]),
      ],
      next: [
        propose("show", [session.id]),
        ...(before === undefined
          ? []
          : [propose("switch", [session.id, before], {}, "takes it back")]),
      ],
    };
  },
});
