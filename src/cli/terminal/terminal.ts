/**
 * Where a command's words go: data to stdout, all else to stderr. Colours, progress, questions and
 * a pager are for terminals only; elsewhere the same words come plain, and nobody is asked
 * anything.
 */
import { HoldfastError } from "../../core/values/errors.js";
import { isColourful, type Paint, paint } from "./colours.js";
import { Declined } from "./declined.js";
import { ago, clip, size, utc, width } from "./text.js";

export interface TerminalOptions {
  readonly utc: boolean;
  readonly quiet: boolean;
  readonly pager: boolean;
}

export interface Progress {
  /** How far it is; of how much, where that is known. */
  show(done: number, of?: number, unit?: "bytes"): void;
  end(): void;
}

const NOT_OFTENER_MS = 100;
const BAR = 24;
const SPIN = ["|", "/", "-", "\\"];

export class Terminal {
  /** Of stdout, and of stderr. */
  readonly paint: Paint;
  readonly paintErr: Paint;
  /** How wide stdout is: without an end where it is no terminal. */
  readonly columns: number;
  readonly isTty: boolean;
  /** Whether lines may be drawn with more than ASCII has. */
  readonly isUnicode: boolean;
  readonly now = Date.now();
  readonly #o: TerminalOptions;

  constructor(o: TerminalOptions, env: NodeJS.ProcessEnv = process.env) {
    this.#o = o;
    this.isTty = process.stdout.isTTY === true;
    this.columns = this.isTty ? process.stdout.columns || 80 : Number.POSITIVE_INFINITY;
    this.paint = paint(isColourful(process.stdout, env));
    this.paintErr = paint(isColourful(process.stderr, env));
    const locale = env["LC_ALL"] || env["LC_CTYPE"] || env["LANG"] || "";
    this.isUnicode = env["TERM"] !== "dumb" && (locale === "" || /utf-?8/i.test(locale));
  }

  /** Whether there is somebody who can be asked, and sees what is answered. */
  get isAttended(): boolean {
    return process.stdin.isTTY === true && process.stderr.isTTY === true;
  }

  time(iso: string): string {
    return this.#o.utc ? utc(iso) : ago(iso, this.now);
  }

  // ---- data

  /** Lines that are data; through a pager where they are more than the screen has. */
  async print(lines: Iterable<string>, pages = false): Promise<void> {
    const all = [...lines];
    if (all.length === 0) return;
    const text = `${all.join("\n")}\n`;
    if (!(pages && this.#pages(all) && (await page(text)))) process.stdout.write(text);
  }

  #pages(lines: readonly string[]): boolean {
    if (!this.isTty || !process.stdin.isTTY || !this.#o.pager || process.env["TERM"] === "dumb")
      return false;
    const rows = lines.reduce(
      (sum, line) => sum + Math.max(1, Math.ceil(width(line) / this.columns)),
      0,
    );
    return rows >= (process.stdout.rows || 24);
  }

  // ---- all else

  tell(text: string): void {
    process.stderr.write(`${text}\n`);
  }

  /** What one would want to do next. */
  next(commands: readonly (readonly [line: string, says: string])[]): void {
    if (this.#o.quiet) return;
    for (const [i, [line, says]] of commands.entries())
      this.tell(
        this.paintErr.dim(
          `${i === 0 ? "Next:" : "     "} ${line}${says === "" ? "" : `   # ${says}`}`,
        ),
      );
  }

  progress(what: string): Progress {
    if (process.stderr.isTTY !== true || this.#o.quiet || process.env["TERM"] === "dumb")
      return { show() {}, end() {} };
    let at = 0;
    let turns = 0;
    let isShown = false;
    const room = (process.stderr.columns || 80) - 1;
    const amount = (count: number, unit: "bytes" | undefined) =>
      unit === "bytes" ? size(count) : count.toLocaleString("en-US");
    return {
      show(done, of, unit) {
        if (performance.now() - at < NOT_OFTENER_MS) return;
        at = performance.now();
        isShown = true;
        const part = of === undefined || of === 0 ? 0 : Math.min(1, done / of);
        const filled = Math.round(part * BAR);
        const text =
          of === undefined
            ? `${SPIN[turns++ % SPIN.length]} ${what} ${amount(done, unit)}`
            : `${what} [${"#".repeat(filled)}${".".repeat(BAR - filled)}] ${Math.floor(part * 100)} % of ${amount(of, unit)}`;
        process.stderr.write(`\r\u001b[K${clip(text, room)}`);
      },
      end() {
        if (isShown) process.stderr.write("\r\u001b[K");
        isShown = false;
      },
    };
  }

  /** A person is asked; where there is none, nothing is done without --yes. */
  async confirm(
    what: string,
    { yes, dryRuns = true }: { readonly yes: boolean; readonly dryRuns?: boolean },
  ): Promise<void> {
    if (yes) return;
    if (!this.isAttended)
      throw new HoldfastError(
        "INVALID_OPTION",
        `${what} Pass --yes to say that this is wanted${dryRuns ? ", or --dry-run to see what would happen" : ""}.`,
        { path: "--yes" },
      );
    const { createInterface } = await import("node:readline/promises");
    const asking = createInterface({ input: process.stdin, output: process.stderr });
    // Ctrl-C and the end of the input are a no.
    const answer = await new Promise<string>((resolve) => {
      asking.once("close", () => resolve(""));
      asking.question(`${what} Go on? [y/N] `).then(resolve, () => resolve(""));
    });
    asking.close();
    if (!/^y(es)?$/i.test(answer.trim())) throw new Declined();
  }
}

/** Answers whether there was a pager to hand it to. */
async function page(text: string): Promise<boolean> {
  const named = process.env["HOLDFAST_PAGER"] ?? process.env["PAGER"];
  if (named === "" || named === "cat") return false;
  const { spawn } = await import("node:child_process");
  const o = {
    stdio: ["pipe", "inherit", "inherit"] as ["pipe", "inherit", "inherit"],
    env: { LESS: "FRX", LV: "-c", ...process.env },
  };
  // What somebody has named is a command line of theirs.
  const pager = named === undefined ? spawn("less", [], o) : spawn(named, { ...o, shell: true });
  // Ctrl-C is the pager's while it runs; leaving it before the end is no error.
  const ignore = () => {};
  process.on("SIGINT", ignore);
  pager.stdin.on("error", ignore);
  pager.stdin.end(text);
  try {
    const code = await new Promise<number | null>((resolve, reject) => {
      pager.once("error", reject);
      pager.once("close", resolve);
    });
    // A shell that does not find it says so with 127.
    return code !== 127;
  } catch {
    return false;
  } finally {
    process.off("SIGINT", ignore);
  }
}
