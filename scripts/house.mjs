/** `npm run house`: print what the code base is made of. `-- --json` prints the same as JSON. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  avoided,
  callersOfSaves,
  cyclesIn,
  exportsOf,
  featureImports,
  folderEdges,
  folderOf,
  importsOf,
  percentile,
  portWidth,
  sentencesOf,
  sourcesIn,
} from "./house-facts.mjs";

const root = process.env.HOUSE_ROOT ?? fileURLToPath(new URL("..", import.meta.url));
const read = (path) => readFileSync(join(root, path), "utf8");
const linesIn = (text) => text.split("\n").length - 1;
const MOST = 12;

const sources = sourcesIn(join(root, "src"));
const imports = importsOf(sources);
const known = new Set(sources.map(({ file }) => file));
const folders = new Map();
for (const { file, text } of sources) {
  const { files, lines } = folders.get(folderOf(file)) ?? { files: 0, lines: 0 };
  folders.set(folderOf(file), { files: files + 1, lines: lines + linesIn(text) });
}
const pages = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].concat(
  readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".md"))
    .sort()
    .map((file) => `docs/${file}`),
);
const tests = sourcesIn(join(root, "test"));
const testFolders = new Map();
for (const { file } of tests)
  testFolders.set(folderOf(file), (testFolders.get(folderOf(file)) ?? 0) + 1);
const largest = (map) => [...map].sort(([, a], [, b]) => b - a);

const house = {
  files: sources.length,
  lines: sources.reduce((sum, { text }) => sum + linesIn(text), 0),
  testFiles: tests.length,
  testLines: tests.reduce((sum, { text }) => sum + linesIn(text), 0),
  folders: [...folders].map(([folder, { files, lines }]) => ({ folder, files, lines })),
  largestFolders: largest(
    new Map([...folders].map(([folder, { files }]) => [folder, files])),
  ).slice(0, MOST),
  largestTestFolders: largest(testFolders).slice(0, 5),
  longestFiles: largest(new Map(sources.map(({ file, text }) => [file, linesIn(text)]))).slice(
    0,
    MOST,
  ),
  longestLine: Math.max(
    ...sources.flatMap(({ text }) => text.split("\n").map(({ length }) => length)),
  ),
  folderCycles: cyclesIn(folderEdges(imports, (file) => known.has(file))),
  featureImports: featureImports(imports).map(({ from, to }) => `${from} → ${to}`),
  callersOfSaves: callersOfSaves(sources),
  port: portWidth(read("src/store/port.ts")),
  publicNames: exportsOf(read("src/index.ts")),
  prose: pages.map((page) => {
    const text = read(page);
    const sentences = sentencesOf(text);
    return {
      page,
      lines: linesIn(text),
      sentences: sentences.length,
      median: percentile(sentences, 0.5),
      p90: percentile(sentences, 0.9),
      avoided: avoided(text),
    };
  }),
  avoidedInSource: sources.reduce((sum, { text }) => sum + avoided(text), 0),
};

if (process.argv.includes("--json")) console.log(JSON.stringify(house, null, 2));
else {
  const list = (entries) => (entries.length === 0 ? "none" : entries.join("\n  "));
  console.log(
    `${house.files} files, ${house.lines} lines in src; ${house.testFiles} files, ${house.testLines} lines in test`,
  );
  console.log(`longest line in src: ${house.longestLine}`);
  console.table(house.folders);
  console.log(
    `largest folders\n  ${list(house.largestFolders.map(([folder, files]) => `${files}  ${folder}`))}`,
  );
  console.log(
    `largest test folders\n  ${list(house.largestTestFolders.map(([folder, files]) => `${files}  ${folder}`))}`,
  );
  console.log(
    `longest files\n  ${list(house.longestFiles.map(([file, lines]) => `${lines}  ${file}`))}`,
  );
  console.log(`folder cycles: ${house.folderCycles.length}`);
  for (const circle of house.folderCycles) console.log(`  ${circle.join(", ")}`);
  console.log(`imports between features: ${house.featureImports.length}`);
  for (const line of house.featureImports) console.log(`  ${line}`);
  console.log(`callers of saves: ${house.callersOfSaves.length}\n  ${list(house.callersOfSaves)}`);
  console.log(
    `store port: ${house.port.required} required methods, ${house.port.capabilities} capabilities`,
  );
  console.log(`public names: ${house.publicNames.values} values, ${house.publicNames.types} types`);
  console.table(house.prose);
  console.log(`avoid-list words in src: ${house.avoidedInSource}`);
}
