/**
 * Search in many messages of realistic text, against FTS5 asked directly in the same file; saves
 * with an index; what it takes on disk.
 */
import { rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { open } from "../../dist/index.js";
import { openDriver } from "../../dist/store/sql/sqlite/driver/driver.js";
import { median, now, step } from "../measure.mjs";

let seed = 20_260_101;
const random = () => {
  seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
  return seed / 2 ** 32;
};

/** Words as they are spread in what people write: a few are everywhere, most are rare. */
const VOCABULARY = 40_000;
const SYLLABLES =
  "ka lo me ri sun ter ban do vi pel gra shi mon tak re ful ness ing ly un pre con der for al est ma no qui zen".split(
    " ",
  );
const words = Array.from({ length: VOCABULARY }, (_, i) => {
  let text = "";
  // Frequent words are short.
  const parts = i < 30 ? 1 : i < 900 ? 2 : i < 20_000 ? 3 : 4;
  for (let n = 0, rest = i; n < parts; n++, rest = Math.floor(rest / SYLLABLES.length))
    text += SYLLABLES[rest % SYLLABLES.length];
  return text;
});
const upTo = new Float64Array(VOCABULARY);
for (let i = 0, sum = 0; i < VOCABULARY; i++) {
  sum += 1 / (i + 2.7);
  upTo[i] = sum;
}

function word() {
  const wanted = random() * upTo[VOCABULARY - 1];
  let low = 0;
  let high = VOCABULARY - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (upTo[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return words[low];
}

/** Lengths are spread lognormally around 80 words. */
function message() {
  const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const length = Math.max(1, Math.round(80 * Math.exp(0.6 * normal)));
  const text = Array.from({ length }, word);
  return Buffer.from(text.join(" ")).toString();
}

export async function search({ directory, messages, queries, saves }) {
  const path = join(directory, "search.db");
  let hold = await open(path, { search: false });
  await fillStore(hold, messages);
  await hold.close();
  const storeBytes = statSync(path).size;
  hold = await open(path);
  const begun = now();
  await hold.sessions.index({
    onProgress: ({ taken, behind }) => show(`indexing: ${taken} saves, ${behind} left`),
  });
  const seconds = (now() - begun) / 1e6;
  show("");
  await hold.close();
  const indexBytes = statSync(`${path}-search`).size;
  hold = await open(path);
  const found = await timeSearches(hold, `${path}-search`, queries);
  await hold.close();
  for (const suffix of ["", "-search", "-anchors"]) rmSync(path + suffix, { force: true });
  const disk = {
    name: "search: disk with the index / without",
    value: (storeBytes + indexBytes) / storeBytes,
    floor: 1.6,
    note: `${mb(indexBytes)} beside ${mb(storeBytes)}, made in ${seconds.toFixed(0)} s`,
  };
  return [...found, disk, ...(await savesWithIndex(directory, saves))];
}

const mb = (bytes) => `${(bytes / 2 ** 20).toFixed(0)} MB`;
const show = (text) => {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text && `  ${text}`}`);
};

/**
 * Sessions of a hundred messages, two to a save; checkpoints that are not waited for one by one
 * share their commits.
 */
async function fillStore(hold, messages) {
  const EACH = 100;
  const AT_ONCE = 20;
  for (let made = 0, n = 0; made < messages; ) {
    const group = await Promise.all(
      Array.from({ length: Math.min(AT_ONCE, (messages - made) / EACH) }, () =>
        hold.session(`s${n++}`, { agent: `agent-${n % 10}` }),
      ),
    );
    const checkpoints = [];
    for (const session of group) {
      for (let i = 0; i < EACH; i += 2) {
        session.append(
          { role: "user", content: message() },
          { role: "assistant", content: message() },
        );
        checkpoints.push(session.checkpoint());
      }
      made += EACH;
    }
    await Promise.all(checkpoints);
    await Promise.all(group.map((session) => session.close()));
    show(`filling: ${made} of ${messages} messages`);
  }
}

/** Two words that occur together in at most a thousand messages, each asked of both in turns. */
async function timeSearches(hold, file, count) {
  const db = openDriver(file);
  db.exec("PRAGMA cache_size = -32000");
  const bare = db.prepare("SELECT rowid FROM text WHERE text MATCH ? ORDER BY rank LIMIT 20");
  const hits = db.prepare("SELECT count(*) FROM text WHERE text MATCH ?");
  const asked = [];
  for (let tries = 0; asked.length < count && tries < 100 * count; tries++) {
    const [a, b] = [word(), word()];
    const match = `"${a}" AND "${b}"`;
    const [found] = hits.get(match);
    if (a !== b && found > 0 && found <= 1000) asked.push({ words: `${a} ${b}`, match, found });
  }
  const ours = [];
  const theirs = [];
  const ratios = [];
  for (let round = 0; round < 3; round++) {
    for (const { words: text, match } of asked) {
      let start = now();
      bare.all(match);
      const bareUs = now() - start;
      start = now();
      const { items } = await hold.sessions.search(text, { limit: 20 });
      const searchUs = now() - start;
      if (items.length === 0) throw new Error(`nothing was found for ${text}`);
      // The first round fills the caches of both.
      if (round === 0) continue;
      theirs.push(bareUs);
      ours.push(searchUs);
      ratios.push(searchUs / bareUs);
    }
  }
  db.close();
  const note = `${(median(ours) / 1000).toFixed(2)} / ${(median(theirs) / 1000).toFixed(2)} ms, ${asked.length} searches, ${Math.round(median(asked.map(({ found }) => found)))} hits at p50`;
  return [
    { name: "search: two words, p50, ms", value: median(ours) / 1000, floor: 20, unit: "ms", note },
    {
      name: "search: two words, p50 / FTS5 alone",
      value: median(ours) / median(theirs),
      floor: 1.5,
      note: `${median(ratios).toFixed(2)}x search by search`,
    },
  ];
}

/** A save where there is an index against one where there is none, taken in turns. */
async function savesWithIndex(directory, rounds) {
  const [plain, indexed] = [
    await open(join(directory, "plain.db"), { search: false }),
    await open(join(directory, "indexed.db")),
  ];
  await indexed.sessions.search("anything");
  const sessions = [await plain.session("bench"), await indexed.session("bench")];
  const times = [[], []];
  for (let i = 0; i < rounds + 500; i++) {
    const messages = step();
    // Neither is always the first.
    for (const which of i % 2 ? [0, 1] : [1, 0]) {
      const start = now();
      sessions[which].append(...messages);
      await sessions[which].checkpoint();
      if (i >= 500) times[which].push(now() - start);
    }
  }
  await plain.close();
  await indexed.close();
  const at = (part) =>
    times.map((all) => all.toSorted((a, b) => a - b)[Math.floor(all.length * part)]);
  return [0.5, 0.99].map((part) => {
    const [without, beside] = at(part);
    const name = `save p${part * 100} where there is an index / where there is none`;
    return {
      name,
      value: beside / without,
      floor: 1.05,
      note: `${beside.toFixed(0)} / ${without.toFixed(0)} µs`,
    };
  });
}
