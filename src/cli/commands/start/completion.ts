import { command } from "../../framework/command.js";
import { complete } from "../../shell/candidates.js";
import { SCRIPTS } from "../../shell/scripts.js";

export const completion = command({
  name: "completion",
  group: "begin",
  says: "a script that lets the shell complete commands, options and ids",
  store: false,
  words: [{ name: "SHELL", says: "which", choices: Object.keys(SCRIPTS) }],
  examples: [
    ["source <(holdfast completion bash)", "in ~/.bashrc"],
    ["source <(holdfast completion zsh)", "in ~/.zshrc, behind compinit"],
    ["holdfast completion fish | source", "in ~/.config/fish/config.fish"],
  ],
  async run({ words: [shell = ""] }) {
    const script = SCRIPTS[shell] ?? "";
    return { json: { shell, script }, lines: [script.trimEnd()] };
  },
});

/** What the scripts ask: the words so far, the last of which is to be completed. */
export const completing = command({
  name: "__complete",
  group: "begin",
  says: "candidates for the last word",
  store: false,
  hidden: true,
  words: [{ name: "WORD", says: "the words so far", many: true, optional: true }],
  async run({ words, commands }) {
    for (const line of await complete(words, commands)) process.stdout.write(`${line}\n`);
    // A store that does not answer is not waited for.
    process.exit(0);
  },
});
