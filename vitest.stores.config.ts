/**
 * The tests of `npm run test:stores`: each file that goes over the table of stores, on the stores
 * that `npm test` leaves out.
 */
import { isFault, runDirectory, testsThat } from "./vitest.shared.js";

const stores = process.env["HOLDFAST_STORES"] ?? "memory,dir,postgres";

export default testsThat(
  (file) => !isFault(file) && /\bstores\b[^;]*support\/stores\.js"/.test(file.text),
  {
    HOLDFAST_STORES: stores,
    TMPDIR: runDirectory("memory"),
  },
);
