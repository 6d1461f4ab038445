/**
 * Every error Holdfast throws on purpose: one class, one table of codes.
 *
 * The table is the single source of the HTTP status, the exit code of the command line and whether
 * trying the same call again can help. A message says what happened and what to do next; `details`
 * carries the same facts as data.
 */

interface ErrorKind {
  readonly http: number;
  readonly exit: number;
  readonly retryable: boolean;
  readonly says: string;
}

/** Each error code, with its meaning, and whether the call may be made again. */
export const errorTable = {
  INVALID_ID: {
    http: 400,
    exit: 2,
    retryable: false,
    says: "An id is not 1 to 200 bytes of plain text.",
  },
  INVALID_VALUE: {
    http: 400,
    exit: 2,
    retryable: false,
    says: "A value is not JSON; `details.path` names the offender.",
  },
  INVALID_OPTION: {
    http: 400,
    exit: 2,
    retryable: false,
    says: "An option, filter or cursor is not one this call takes.",
  },
  TOO_LARGE: {
    http: 413,
    exit: 2,
    retryable: false,
    says: "A value, list or save is past its stated limit.",
  },
  NOT_FOUND: {
    http: 404,
    exit: 3,
    retryable: false,
    says: "No such session, checkpoint or store.",
  },
  CONFLICT: {
    http: 409,
    exit: 4,
    retryable: false,
    says: "The same id stands for something else already.",
  },
  BAD_STATUS: {
    http: 409,
    exit: 4,
    retryable: false,
    says: "The session's status does not allow this.",
  },
  IN_DOUBT: {
    http: 409,
    exit: 4,
    retryable: false,
    says: "Nobody knows whether a call happened; somebody must settle it.",
  },
  WAITING: {
    http: 409,
    exit: 4,
    retryable: false,
    says: "Somebody must approve, or a signal come, before the session can go on.",
  },
  TURN_OPEN: {
    http: 409,
    exit: 4,
    retryable: false,
    says: "The session is busy with another turn.",
  },
  UNSAVED: { http: 409, exit: 4, retryable: false, says: "Staged work has not been saved." },
  LEASE_HELD: { http: 423, exit: 4, retryable: true, says: "Another holder has the session." },
  STALE_LEASE: {
    http: 409,
    exit: 4,
    retryable: false,
    says: "This holder was superseded; nothing was written.",
  },
  CLOSED: { http: 409, exit: 1, retryable: false, says: "The store or session has been closed." },
  CORRUPT: {
    http: 500,
    exit: 5,
    retryable: false,
    says: "Stored data does not match its digest, or is missing.",
  },
  NOT_A_STORE: {
    http: 500,
    exit: 5,
    retryable: false,
    says: "The file is not a Holdfast store; it was left untouched.",
  },
  NEWER_FORMAT: {
    http: 500,
    exit: 5,
    retryable: false,
    says: "The store was written by a newer Holdfast; it was left untouched.",
  },
  UNSUPPORTED: {
    http: 501,
    exit: 1,
    retryable: false,
    says: "This store, driver or file system cannot be used here.",
  },
  BUSY: {
    http: 503,
    exit: 6,
    retryable: true,
    says: "Others kept the store busy for too long, or too many files are open.",
  },
  UNREACHABLE: {
    http: 503,
    exit: 6,
    retryable: true,
    says: "The database server does not answer, or takes no writes.",
  },
  DENIED: {
    http: 500,
    exit: 1,
    retryable: false,
    says: "The database refuses this role or password.",
  },
  DISK_FULL: {
    http: 507,
    exit: 1,
    retryable: true,
    says: "There is no room left; nothing was half written.",
  },
  IO: {
    http: 500,
    exit: 1,
    retryable: false,
    says: "The disk or the driver failed, or the store's files are gone; open the store again.",
  },
} as const satisfies Record<string, ErrorKind>;

/** The codes of Holdfast's errors. */
export type ErrorCode = keyof typeof errorTable;

/** Facts behind a message. Which of them are present depends on the code. */
export interface ErrorDetails {
  readonly path?: string;
  readonly sessionId?: string;
  readonly checkpointId?: string;
  readonly effectId?: string;
  readonly branch?: string;
  readonly seq?: number;
  /** The row of an export, counted from 1. */
  readonly row?: number;
  /** LEASE_HELD: who holds the session, in words. */
  readonly holder?: string;
  /** LEASE_HELD: until the lease can be taken if it is not renewed. */
  readonly remainingMs?: number;
  /** CONFLICT about a call: the decision that stands, and whose it is. */
  readonly decision?: "approved" | "denied" | "output" | "error" | "retry";
  readonly decidedBy?: string;
  /** UNSUPPORTED: what the store would need to have. */
  readonly capability?: string;
  readonly limit?: number;
  readonly found?: string | number;
}

/**
 * An error of Holdfast, with a code, and details to act on.
 *
 * @example
 * try {
 *   await hold.session("order-42", { waitMs: 0 });
 * } catch (error) {
 *   if (!(error instanceof HoldfastError) || error.code !== "LEASE_HELD") throw error;
 *   console.log("Another process works on it.");
 * }
 */
export class HoldfastError extends Error {
  override readonly name = "HoldfastError";
  readonly code: ErrorCode;
  readonly retryable: boolean;
  readonly details: ErrorDetails;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.retryable = errorTable[code].retryable;
    this.details = Object.freeze(details);
  }
}

/** Say that an optional package is not installed, and how to install it. */
export const missingPackage = (feature: string, name: string, cause: unknown): HoldfastError =>
  new HoldfastError(
    "UNSUPPORTED",
    `${feature} needs the package ${name}. Install it: npm install ${name}`,
    {},
    cause,
  );

/**
 * Stored text shown inside a message: one line, bounded, control characters visible instead of sent
 * to a terminal.
 */
export function quote(text: string): string {
  const cut = text.length > 80 ? `${text.slice(0, 77)}…` : text;
  return JSON.stringify(cut).replace(UNSEEN, (c) =>
    c.replace(/[^]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`),
  );
}

/**
 * Controls, and characters that are not seen or change the direction of text. What emoji are put
 * together with stays.
 */
const UNSEEN =
  /(?!\u200d|[\ufe0e\ufe0f])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

/** A path one step further: `.key` where that can be read as one, otherwise quoted and bounded. */
export function pathTo(path: string, key: string | number): string {
  if (typeof key === "number") return `${path}[${key}]`;
  return /^[A-Za-z_$][\w$]{0,99}$/.test(key) ? `${path}.${key}` : `${path}[${quote(key)}]`;
}
