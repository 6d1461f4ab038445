/**
 * The name of a generation of a store: drawn, so that two copies of one store never have the
 * same.
 */
import { randomBytes } from "node:crypto";

export const newGeneration = (): string => randomBytes(12).toString("base64url");
