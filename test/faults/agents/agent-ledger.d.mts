export interface LedgerLine {
  readonly name: string;
  readonly key: string;
  readonly session: string;
  readonly callId: string;
  readonly pid: number;
  readonly run: number;
  readonly did: "acted" | "deduped" | "nothing";
  readonly receipt?: string;
}
export class Ledger {
  constructor(path: string);
  read(): readonly LedgerLine[];
  close(): void;
}
