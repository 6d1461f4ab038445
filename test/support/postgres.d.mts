export interface ServerOptions {
  /** Settings as in postgresql.conf. */
  readonly settings?: Readonly<Record<string, string | number>>;
}

export interface Server {
  readonly port: number;
  readonly pid: number | undefined;
  readonly directory: string;
  url(user?: string, database?: string): string;
  start(): Promise<Server>;
  run(
    text: string,
    options?: { readonly database?: string; readonly values?: readonly unknown[] },
  ): Promise<Record<string, unknown>[]>;
  kill(): Promise<void>;
  stop(signal?: NodeJS.Signals): Promise<void>;
  remove(): Promise<void>;
  standby(): Promise<Server>;
}

export function startPostgres(options?: ServerOptions): Promise<Server>;
