/**
 * The tests of `npm test`: fixed seeds, the features on SQLite, the store contract on every store.
 */
import { isFault, runDirectory, testsThat } from "./vitest.shared.js";

export default testsThat((file) => !isFault(file), { TMPDIR: runDirectory("memory") });
