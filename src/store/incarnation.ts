/**
 * The name of an incarnation of a store: drawn, so that two copies of one store never have the
 * same.
 */
import { randomBytes } from "node:crypto";

export const newIncarnation = (): string => randomBytes(12).toString("base64url");
