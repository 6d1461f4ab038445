/**
 * How a child speaks: one JSON value a line, written at once and whole, so that what was said
 * before a kill was heard.
 */
import { readSync, writeSync } from "node:fs";

export function say(message) {
  const bytes = Buffer.from(`${JSON.stringify(message)}\n`);
  for (let at = 0; at < bytes.length; ) {
    try {
      at += writeSync(1, bytes, at);
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
    }
  }
}

/** Blocks until a line comes: nothing else runs in the meantime. */
export function hear() {
  let text = "";
  const byte = Buffer.alloc(1);
  for (;;) {
    try {
      if (readSync(0, byte) === 0) process.exit(0);
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
      continue;
    }
    if (byte[0] === 10) return JSON.parse(text);
    text += byte.toString("latin1");
  }
}
