/** A client of the server on stdio that writes and sees every byte. */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { bin } from "./connect.js";

interface Message {
  readonly id?: number | string;
  readonly result?: any;
  readonly error?: { readonly code: number; readonly message: string };
}

export class RawClient {
  readonly child: ChildProcessWithoutNullStreams;
  readonly ended: Promise<number | null>;
  out = "";
  told = "";

  constructor(store: string, args: readonly string[] = [], env: Record<string, string> = {}) {
    this.child = spawn(process.execPath, [bin, "mcp", "--store", store, ...args], {
      stdio: "pipe",
      env: { ...process.env, ...env },
    });
    this.child.stdout.on("data", (chunk: Buffer) => {
      this.out += chunk.toString();
    });
    this.child.stderr.on("data", (chunk: Buffer) => {
      this.told += chunk.toString();
    });
    // It may end while it is being written to.
    this.child.stdin.on("error", () => {});
    this.ended = new Promise((resolve) => this.child.once("close", resolve));
  }

  get messages(): Message[] {
    return this.out
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as Message);
  }

  write(text: string): Promise<void> {
    return new Promise((resolve) => {
      if (this.child.stdin.write(text)) resolve();
      else this.child.stdin.once("drain", resolve);
    });
  }

  line(id: number, method: string, params: object = {}): string {
    return `${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`;
  }

  call(id: number, name: string, args: object): string {
    return this.line(id, "tools/call", { name, arguments: args });
  }

  async answer(id: number | string): Promise<Message> {
    for (;;) {
      const whole = this.out.slice(0, this.out.lastIndexOf("\n") + 1);
      for (const line of whole.split("\n")) {
        const message = line === "" ? undefined : (JSON.parse(line) as Message);
        if (message?.id === id) return message;
      }
      if (this.child.exitCode !== null) throw new Error(`It ended: ${this.told}`);
      await sleep(5);
    }
  }

  async greet(): Promise<void> {
    const client = {
      protocolVersion: "2025-11-25",
      capabilities: {},
      clientInfo: { name: "raw", version: "1" },
    };
    await this.write(this.line(0, "initialize", client));
    await this.answer(0);
    await this.write(
      `${JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" })}\n`,
    );
  }
}

/** Starts servers on stdio, greeted or not, and ends them all. */
export class RawClients {
  readonly #clients: RawClient[] = [];

  start(store: string, args: readonly string[] = [], env: Record<string, string> = {}): RawClient {
    const client = new RawClient(store, args, env);
    this.#clients.push(client);
    return client;
  }

  async greeted(store: string, args: readonly string[] = []): Promise<RawClient> {
    const client = this.start(store, args);
    await client.greet();
    return client;
  }

  async end(): Promise<void> {
    for (const client of this.#clients.splice(0)) {
      client.child.kill("SIGKILL");
      await client.ended;
    }
  }
}
