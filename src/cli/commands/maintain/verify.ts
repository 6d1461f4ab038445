import { command, SESSION } from "../../framework/command.js";
import { requireSession } from "../../framework/ids.js";
import { propose } from "../../framework/next-steps.js";
import { counted, inline } from "../../terminal/text.js";

export const verify = command({
  name: "verify",
  group: "keep",
  says: "reads everything, or one session, and says what was changed, lost or damaged",
  more: "Ends with exit code 5 where something is.",
  words: [{ ...SESSION, optional: true }],
  async run({ words: [word], terminal, hold }) {
    const store = await hold();
    const id = word === undefined ? undefined : (await requireSession(store, word)).id;
    const bar = terminal.progress("verified saves:");
    const verdict = await store
      .verify({
        onProgress: (checked) => bar.show(checked),
        ...(id !== undefined && { sessionId: id }),
      })
      .finally(() => bar.end());
    const { ok, checked, findings } = verdict;
    const { paint } = terminal;
    return {
      json: verdict,
      lines: ok
        ? [
            `${paint.green("Sound:")} ${checked === 0 && id !== undefined ? "nothing was saved in it that is not shared" : `${counted(checked, "save")}, each as it was written, in an unbroken chain`}.`,
          ]
        : [
            ...findings.map(
              ({ code, sessionId, message }) =>
                `${paint.red(code)}  ${sessionId === undefined ? "" : `${paint.bold(inline(sessionId))}  `}${inline(message)}`,
            ),
            `${paint.red("Damaged:")} ${counted(findings.length, "finding")}; ${counted(checked, "save")} could be verified, and what is sound can be read.`,
          ],
      next: ok
        ? [propose("doctor")]
        : [
            propose("help", ["restore-backup"]),
            propose("export", [], { all: true, output: "sound.jsonl" }, "what can be read"),
          ],
      exit: ok ? 0 : 5,
      pages: true,
    };
  },
});
