/**
 * Salts for records, and what branch ids are made of, drawn from the system in bulk: one call for
 * each would cost more than the digest it salts.
 */
import { randomBytes } from "node:crypto";
import { SALT_CHARS } from "../../core/journal/record.js";

const AT_ONCE = 512;
const BYTES = (SALT_CHARS * 3) / 4;

export class Salts {
  #text = "";
  #used = 0;

  next(): string {
    if (this.#used >= this.#text.length) {
      this.#text = randomBytes(BYTES * AT_ONCE).toString("base64url");
      this.#used = 0;
    }
    const salt = this.#text.slice(this.#used, this.#used + SALT_CHARS);
    this.#used += SALT_CHARS;
    return salt;
  }
}
