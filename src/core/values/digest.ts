/**
 * SHA-256 as 43 characters of base64url. Asking for text is measured to be three times as fast as
 * asking for a Buffer.
 */
import { hash } from "node:crypto";

/** A SHA-256 digest in base64url. */
export type Digest = string;

export const digest = (content: string | Uint8Array): Digest =>
  hash("sha256", content, "base64url");

export const isDigest = (value: unknown): value is Digest =>
  typeof value === "string" && /^[A-Za-z0-9_-]{43}$/.test(value);
