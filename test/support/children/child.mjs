/**
 * Child processes of the fault tests: started early, told later what to do, heard line by line, and
 * ended by their own id.
 */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

/** Starts a process that does with a store what it is told to, one request a line. */
export const startPuppet = (options) => start(new URL("./puppet.mjs", import.meta.url), options);

/**
 * Starts a script, named by its URL. `lines` holds what it has said, one parsed JSON value a line;
 * a last line that was cut short by a kill is no line.
 */
export function start(script, { command = [], args = [] } = {}) {
  const [program, ...before] = [...command, process.execPath];
  const child = spawn(program, [...before, fileURLToPath(script), ...args], {
    stdio: ["pipe", "pipe", "pipe"],
  });
  const lines = [];
  let rest = "";
  let stderr = "";
  let waiting = [];
  const wake = () => {
    const woken = waiting;
    waiting = [];
    for (const check of woken) check();
  };
  child.stdout.setEncoding("utf8").on("data", (text) => {
    const parts = (rest + text).split("\n");
    rest = parts.pop();
    for (const part of parts) lines.push(JSON.parse(part));
    wake();
  });
  child.stderr.setEncoding("utf8").on("data", (text) => {
    stderr += text;
  });
  child.stdin.on("error", () => {});
  let ended;
  // `close` comes after the last byte of the pipe, and after the process was reaped.
  const closed = new Promise((resolve) => {
    child.on("close", (code, signal) => {
      ended = { code, signal };
      wake();
      resolve(ended);
    });
  });
  const self = {
    pid: child.pid,
    lines,
    closed,
    get ended() {
      return ended;
    },
    get stderr() {
      return stderr;
    },
    tell: (message) => child.stdin.write(`${JSON.stringify(message)}\n`),
    signal: (name) => child.kill(name),
    /**
     * The first line from `from` on that fits. Rejects when the child ends, or says nothing fitting
     * in time.
     */
    heard(fits, { from = 0, withinMs = 20_000 } = {}) {
      return new Promise((resolve, reject) => {
        let at = from;
        const timer = setTimeout(
          () => fail(`said nothing fitting within ${withinMs} ms`),
          withinMs,
        );
        const fail = (why) => {
          clearTimeout(timer);
          reject(
            new Error(
              `${script.pathname} (pid ${child.pid}) ${why}; last: ${JSON.stringify(lines.at(-1))}\n${stderr}`,
            ),
          );
        };
        const check = () => {
          for (; at < lines.length; at++) {
            if (!fits(lines[at])) continue;
            clearTimeout(timer);
            return resolve(lines[at]);
          }
          if (ended) return fail(`ended (${ended.code ?? ended.signal})`);
          waiting.push(check);
        };
        check();
      });
    },
    /** Tells it something and waits for the answer. */
    async ask(message, options) {
      const from = lines.length;
      self.tell(message);
      return self.heard((line) => line.answer === message.do, { from, ...options });
    },
    async end() {
      if (!ended) child.kill("SIGKILL");
      await closed;
    },
  };
  return self;
}
