/**
 * Stands between a client and a server on loopback, and does to their connections what networks,
 * failovers and poolers do.
 */
import { connect, createServer, type Server, type Socket } from "node:net";

export type Direction = "to server" | "to client";

export interface Cut {
  readonly direction: Direction;
  /** After so many bytes, counted over one connection from when the cut was asked for. */
  readonly bytes: number;
}

export class Proxy {
  #target: number;
  #server: Server | undefined;
  readonly #pairs = new Set<readonly [Socket, Socket]>();
  #cut: Cut | undefined;
  #seen = { "to server": 0, "to client": 0 };
  cuts = 0;
  /** Nothing comes through any more, and nobody is told. */
  silent = false;

  constructor(target: number) {
    this.#target = target;
  }

  async listen(): Promise<number> {
    const server = createServer((client) => this.#join(client));
    this.#server = server;
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return (server.address() as { port: number }).port;
  }

  /** New connections go there. */
  pointTo(port: number): void {
    this.#target = port;
  }

  /** Counts bytes from now on, and cuts the connection at the place. */
  cutAt(cut: Cut | undefined): void {
    this.#cut = cut;
    this.#seen = { "to server": 0, "to client": 0 };
  }

  /** Bytes that went through since the last `cutAt`. */
  get seen(): Readonly<Record<Direction, number>> {
    return { ...this.#seen };
  }

  cutAll(): void {
    for (const pair of this.#pairs) for (const socket of pair) socket.destroy();
  }

  async close(): Promise<void> {
    this.cutAll();
    await new Promise((resolve) => this.#server?.close(resolve));
  }

  #join(client: Socket): void {
    const server = connect(this.#target, "127.0.0.1");
    const pair = [client, server] as const;
    this.#pairs.add(pair);
    for (const socket of pair) {
      socket.setNoDelay(true);
      socket.on("error", () => {});
      socket.on("close", () => {
        this.#pairs.delete(pair);
        for (const other of pair) other.destroy();
      });
    }
    client.on("data", (bytes) => this.#pass(bytes, server, "to server", pair));
    server.on("data", (bytes) => this.#pass(bytes, client, "to client", pair));
  }

  #pass(bytes: Buffer, to: Socket, direction: Direction, pair: readonly [Socket, Socket]): void {
    if (this.silent) return;
    const before = this.#seen[direction];
    this.#seen[direction] += bytes.length;
    const cut = this.#cut;
    if (cut === undefined || cut.direction !== direction || before + bytes.length < cut.bytes) {
      to.write(bytes);
      return;
    }
    this.#cut = undefined;
    this.cuts += 1;
    // What is before the cut arrives; what is behind it never does.
    to.end(bytes.subarray(0, cut.bytes - before));
    for (const socket of pair) if (socket !== to) socket.destroy();
  }
}

/**
 * A pooler in transaction mode: whenever no transaction is open, the client goes on with another
 * connection to the server. Whatever a client leaves behind on a connection is then somewhere else.
 * For servers that ask for no password.
 */
export class Pooler {
  readonly #target: number;
  readonly #size: number;
  #server: Server | undefined;
  readonly #sockets = new Set<Socket>();
  switches = 0;

  constructor(target: number, size: number) {
    this.#target = target;
    this.#size = size;
  }

  async listen(): Promise<number> {
    const server = createServer((client) => this.#join(client));
    this.#server = server;
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return (server.address() as { port: number }).port;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server?.close(resolve));
  }

  #join(client: Socket): void {
    const backends: Socket[] = [];
    this.#sockets.add(client);
    client.setNoDelay(true);
    client.on("error", () => {});
    client.on("close", () => {
      for (const backend of backends) backend.destroy();
    });
    let current = 0;
    client.once("data", (startup) => {
      for (let i = 0; i < this.#size; i++) {
        const backend = connect(this.#target, "127.0.0.1");
        backends.push(backend);
        backend.setNoDelay(true);
        this.#sockets.add(backend);
        backend.on("error", () => {});
        backend.on("close", () => client.destroy());
        backend.write(startup);
        let ready = false;
        let rest = Buffer.alloc(0);
        backend.on("data", (bytes) => {
          rest = Buffer.concat([rest, bytes]);
          for (let length = 0; rest.length >= 5; rest = rest.subarray(length)) {
            length = 1 + rest.readInt32BE(1);
            if (rest.length < length) break;
            const message = rest.subarray(0, length);
            const isReady = message[0] === 90;
            // The first one's greeting is the client's; of the others nothing is heard before they
            // are in turn.
            if (i === 0 || ready) client.write(message);
            if (isReady && ready && message[5] === 73) {
              current = (current + 1) % this.#size;
              this.switches += 1;
            }
            if (isReady) ready = true;
          }
        });
      }
      client.on("data", (bytes) => backends[current]?.write(bytes));
    });
  }
}
