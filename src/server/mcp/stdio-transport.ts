/**
 * Messages over stdin and stdout, a line each. The SDK has a transport for it, too, which this
 * takes the place of: it ends at a line that is too long, leaves what it cannot read without an
 * answer, reads on however much waits to be written, and drops at the end of the input what was
 * just asked.
 */
import type { Readable, Writable } from "node:stream";
import {
  type JSONRPCMessage,
  parseJSONRPCMessage,
  serializeMessage,
  type Transport,
} from "@modelcontextprotocol/server";
import { type Id, INVALID_REQUEST, idOf, type Refusal, readExactly, refusalOf } from "./exact.js";
import { Lines, MAX_LINE_BYTES, type TooLong } from "./lines.js";

/** Past these nothing more is read until some of it is answered, and heard. */
const MAX_OPEN = 256;
const MAX_UNHEARD_BYTES = 1024 * 1024;
/** How many messages may stand on one line. */
const MAX_BATCH = 1_000;
/** How long whoever has asked is waited for with its answers, once the input is at its end. */
const GRACE_MS = 10_000;

const LISTEN = "subscriptions/listen";

export interface StdioStreams {
  readonly input: Readable;
  readonly output: Writable;
  /** Writes to the output, where that is done by another way than its own `write`. */
  readonly write?: (text: string) => boolean;
}

export class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  /** Nothing more will be asked, and all that was is answered: whoever serves it may close it. */
  onend?: () => void;
  readonly #input: Readable;
  readonly #output: Writable;
  readonly #write: (text: string) => boolean;
  readonly #failed: (message: string) => void;
  readonly #lines = new Lines();
  /** What was asked and is not answered. */
  readonly #open = new Set<Id>();
  #ending: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(
    { input, output, write = (text) => output.write(text) }: StdioStreams,
    failed: (message: string) => void,
  ) {
    this.#input = input;
    this.#output = output;
    this.#write = write;
    this.#failed = failed;
  }

  async start(): Promise<void> {
    this.#input.on("data", this.#read);
    for (const end of ["end", "close", "error"]) this.#input.on(end, this.end);
    this.#output.on("drain", this.#goOn);
    // Whoever would hear is gone.
    this.#output.on("error", this.#close);
    if (this.#input.readableEnded || this.#input.destroyed) this.end();
  }

  /** Asks for no more, and ends when all that was asked is answered. */
  readonly end = (): void => {
    if (this.#ending !== undefined || this.#isClosed) return;
    this.#input.pause();
    const rest = this.#lines.rest();
    if (rest !== undefined) this.#line(rest.toString().trim());
    this.#ending = setTimeout(() => this.onend?.(), GRACE_MS);
    this.#endIfDone();
  };

  #endIfDone(): void {
    if (this.#ending !== undefined && this.#open.size === 0) setImmediate(() => this.onend?.());
  }

  async send(message: JSONRPCMessage): Promise<void> {
    if (this.#isClosed) throw new Error("The client is gone.");
    this.#write(serializeMessage(message));
    if (!("method" in message)) this.#answered(message.id);
  }

  #answered(id: Id | undefined): void {
    if (id === undefined || !this.#open.delete(id)) return;
    this.#goOn();
    this.#endIfDone();
  }

  async close(): Promise<void> {
    this.#close();
  }

  readonly #close = (): void => {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearTimeout(this.#ending);
    this.#input.off("data", this.#read);
    this.#input.pause();
    this.onclose?.();
  };

  // ---- reading

  readonly #read = (chunk: Buffer): void => {
    for (const line of this.#lines.take(chunk)) {
      if (this.#isClosed) return;
      if (Buffer.isBuffer(line)) this.#line(line.toString().trim());
      else this.#tooLong(line);
    }
    if (this.#isFull) this.#input.pause();
  };

  get #isFull(): boolean {
    return this.#open.size > MAX_OPEN || this.#output.writableLength > MAX_UNHEARD_BYTES;
  }

  readonly #goOn = (): void => {
    if (this.#ending === undefined && !this.#isClosed && !this.#isFull && this.#input.isPaused())
      this.#input.resume();
  };

  #line(text: string): void {
    if (text === "") return;
    const read = readExactly(text);
    if ("refused" in read) {
      for (const refusal of read.refused) this.#refuse(refusal);
      return;
    }
    const { value } = read;
    // Some ages of the protocol say several things on one line.
    if (!Array.isArray(value)) this.#message(value);
    else if (value.length === 0 || value.length > MAX_BATCH)
      this.#refuse({
        id: undefined,
        code: INVALID_REQUEST,
        message: `A batch has 1 to ${MAX_BATCH} messages, and this one ${value.length}.`,
      });
    else for (const one of value) this.#message(one);
  }

  #message(value: unknown): void {
    let message: JSONRPCMessage;
    try {
      message = parseJSONRPCMessage(value);
    } catch {
      this.#refuse({
        id: idOf(value),
        code: INVALID_REQUEST,
        message: "It is no message of the protocol.",
      });
      return;
    }
    if ("method" in message) {
      // One that is to be told of changes is answered when it, or this, ends.
      if ("id" in message && message.method !== LISTEN) this.#open.add(message.id);
      // The SDK does not answer what was taken back.
      else if (!("id" in message) && message.method === "notifications/cancelled")
        this.#answered(idOf({ id: message.params?.["requestId"] }));
    }
    this.onmessage?.(message);
  }

  #tooLong({ bytes, id }: TooLong): void {
    const message = `A line of ${bytes} bytes: a message may have ${MAX_LINE_BYTES}. Say it in several calls.`;
    this.#refuse({ id, code: INVALID_REQUEST, message });
  }

  #refuse(refusal: Refusal): void {
    this.#failed(refusal.message);
    if (!this.#isClosed) this.#write(`${JSON.stringify(refusalOf(refusal))}\n`);
  }
}
