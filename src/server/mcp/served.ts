/** What is served, and how whoever asks is told that something went wrong. */
import type { Checkpoints } from "../../api/checkpoints.js";
import { HoldfastError } from "../../core/values/errors.js";
import type { StoreTool, ToolsOptions } from "../../tools/tools.js";

/** What is needed of an open store. */
export interface Source {
  readonly checkpoints: Checkpoints;
  tools(o: ToolsOptions): Readonly<Record<string, StoreTool>>;
}

export interface Served {
  readonly hold: Source;
  readonly version: string;
  readonly tools: ToolsOptions;
  /** Told of every call that has begun, to wait for when the server ends. */
  readonly began: (call: Promise<unknown>) => void;
  /** Told of what should not happen. */
  readonly failed: (error: unknown) => void;
}

/** What went wrong, in words for whoever called. */
export function told(error: unknown, failed: (error: unknown) => void): string {
  if (error instanceof HoldfastError)
    return `${error.code}: ${error.message}${error.retryable ? " It may go through when it is tried again." : ""}`;
  failed(error);
  return "Something went wrong inside of Holdfast; what, is in the log of the server.";
}
