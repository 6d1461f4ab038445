/**
 * What a process can know about the machine it runs on: which boot, which clock, and whether
 * another process still lives.
 */
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readFileSync, readlinkSync } from "node:fs";
import type { Owner } from "../core/sessions/lease.js";

/**
 * Milliseconds since the machine started, as every process on it sees them: no change of the wall
 * clock touches it.
 */
export const monotonicMs = (): number => Number(process.hrtime.bigint() / 1_000_000n);

/**
 * Empty where the system gives no name to its boots. One put together from clocks would change with
 * them.
 */
const bootId = once(
  () =>
    readText("/proc/sys/kernel/random/boot_id") ??
    (process.platform === "darwin" ? macBootId() : ""),
);

function macBootId(): string {
  try {
    return execFileSync("/usr/sbin/sysctl", ["-n", "kern.bootsessionuuid"], {
      encoding: "utf8",
    }).trim();
  } catch {
    return "";
  }
}

/**
 * Process ids mean something only inside their namespace: two containers on one machine share a
 * boot, and not this.
 */
const pidSpace = once(() => {
  try {
    return readlinkSync("/proc/self/ns/pid");
  } catch {
    return process.platform;
  }
});

/**
 * When a process began, in clock ticks since boot; undefined where there is no such process, or no
 * way to tell.
 */
function startedAt(pid: number): string | undefined {
  // The name in the second field may hold spaces and brackets: the fields after it are counted from
  // its last bracket.
  const stat = readText(`/proc/${pid}/stat`);
  return stat?.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
}

function thisProcess(): Owner {
  return {
    boot: bootId(),
    space: pidSpace(),
    pid: process.pid,
    started: startedAt(process.pid) ?? "",
    nonce: randomBytes(9).toString("base64url"),
  };
}

/**
 * Owners of this process that have ended, by their nonce: their process lives on, and they will
 * never write again. The newest are kept; of those long gone the leases have run out. What is kept
 * is who ended, not who lives: the owners of another thread, or of a second copy of this module,
 * are unknown here, and alive.
 */
const ended = new Set<string>();
const MAX_ENDED = 10_000;

function end({ nonce }: Owner): void {
  ended.add(nonce);
  const [oldest] = ended;
  if (ended.size > MAX_ENDED && oldest !== undefined) ended.delete(oldest);
}

/**
 * A new owner on this machine. `leave` is called when it will write no more: a lease it could not
 * give back is then free at once.
 */
export function thisMachine() {
  const self = thisProcess();
  return { self, isDead, leave: () => end(self) };
}

/** Whether an owner is proven dead. Doubt is no proof. */
function isDead(owner: Owner, oneMachine: boolean): boolean {
  if (ended.has(owner.nonce)) return true;
  // Where boots have no names, the pid alone is asked.
  if (owner.boot !== bootId() && owner.boot !== "" && bootId() !== "") return oneMachine;
  if (owner.space !== pidSpace()) return false;
  try {
    process.kill(owner.pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
  // The pid lives, but it may be another process by now. A zombie has ended too; its parent has
  // only not asked yet.
  const started = startedAt(owner.pid);
  if (started !== undefined && owner.started !== "" && started !== owner.started) return true;
  return (
    readText(`/proc/${owner.pid}/stat`)
      ?.slice(0, 400)
      .match(/\) ([A-Z])/)?.[1] === "Z"
  );
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8").trim();
  } catch {
    return undefined;
  }
}

function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}
