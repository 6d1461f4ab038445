/**
 * Read facts about the code base: files, folders, imports, the store port, public names, and prose.
 */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { parseAst } from "rolldown/parseAst";

const AVOID = /\b(nobody|somebody|whoever|whatever)\b/gi;

/** The sources below a directory, by path. */
export const sourcesIn = (directory) =>
  readdirSync(directory, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts"))
    .sort()
    .map((file) => ({ file, text: readFileSync(join(directory, file), "utf8") }));

/** The folder a file is in; a file at the top is a folder of its own. */
export const folderOf = (file) => (file.includes("/") ? dirname(file) : file);

/**
 * Every import and re-export. `to` is a path below the same directory, or the name of a package.
 */
export const importsOf = (sources) =>
  sources.flatMap(({ file, text }) =>
    [
      ...text.matchAll(
        /^(?:import|export)[^;]*?from "([^"]+)";|^import "([^"]+)";|import\("([^"]+)"\)/gms,
      ),
    ].map((match) => {
      const target = match[1] ?? match[2] ?? match[3] ?? "";
      const to = target.startsWith(".")
        ? relative(".", join(dirname(file), target)).replace(/\.js$/, ".ts")
        : target;
      return { from: file, to };
    }),
  );

/** Imports from one folder to another, each once. */
export function folderEdges(imports, isSource) {
  const edges = new Map();
  for (const { from, to } of imports) {
    const [a, b] = [folderOf(from), folderOf(to)];
    if (isSource(to) && a !== b) edges.set(a, (edges.get(a) ?? new Set()).add(b));
  }
  return edges;
}

/** Groups of folders that import each other in a circle. */
export function cyclesIn(edges) {
  const reach = (start) => {
    const seen = new Set();
    const next = [...(edges.get(start) ?? [])];
    while (next.length > 0) {
      const folder = next.pop();
      if (seen.has(folder)) continue;
      seen.add(folder);
      next.push(...(edges.get(folder) ?? []));
    }
    return seen;
  };
  const reached = new Map([...edges.keys()].map((folder) => [folder, reach(folder)]));
  const circles = new Map();
  for (const [folder, seen] of reached) {
    if (!seen.has(folder)) continue;
    const circle = [...seen].filter((other) => reached.get(other)?.has(folder)).toSorted(byName);
    circles.set(circle.join(" "), circle);
  }
  return [...circles.values()];
}

const byName = (a, b) => (a < b ? -1 : 1);

const featureOf = (file) => /^features\/[^/]+/.exec(file)?.[0];

/** Imports from one feature to another. */
export const featureImports = (imports) =>
  imports.filter(
    ({ from, to }) => featureOf(from) && featureOf(to) && featureOf(from) !== featureOf(to),
  );

/** Files above the store that call the port's `saves`. */
export const callersOfSaves = (sources) =>
  sources
    .filter(({ file, text }) => !/^(store|testing)\//.test(file) && /\.saves\(/.test(text))
    .map(({ file }) => file);

/** How many methods a store must have, and how many capabilities it may have. */
export function portWidth(text) {
  const membersOf = (name, type) =>
    parseAst(text, { lang: "ts" })
      .body.map((node) => node.declaration ?? node)
      .find((node) => node.type === "TSInterfaceDeclaration" && node.id.name === name)
      .body.body.filter((member) => member.type === type);
  return {
    required: membersOf("Store", "TSMethodSignature").filter(({ optional }) => !optional).length,
    capabilities: membersOf("Capabilities", "TSPropertySignature").length,
  };
}

/** How many values and types a module exports. */
export function exportsOf(text) {
  const found = { values: 0, types: 0 };
  for (const node of parseAst(text, { lang: "ts" }).body) {
    if (!node.type.startsWith("Export")) continue;
    for (const { exportKind } of node.specifiers ?? [])
      found[node.exportKind === "type" || exportKind === "type" ? "types" : "values"] += 1;
    if (node.declaration)
      found[/^TS(Interface|TypeAlias)/.test(node.declaration.type) ? "types" : "values"] += 1;
  }
  return found;
}

export const avoided = (text) => [...text.matchAll(AVOID)].length;

/** The sentences of a page: code, tables and headings are left out. */
export function sentencesOf(markdown) {
  const prose = markdown
    .replace(/^```.*?^```/gms, "")
    .replace(/^(\||#|<).*$/gm, "")
    .replace(/`[^`]*`/g, "code")
    .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/^\s*([-*]|\d+\.)\s+/gm, "\n\n");
  return prose
    .split(/\n\s*\n/)
    .flatMap((paragraph) => paragraph.replace(/\s+/g, " ").split(/(?<=[.!?:])\s+/))
    .map((sentence) => sentence.trim())
    .filter((sentence) => /\w/.test(sentence));
}

/** The length in words that a share of the sentences does not pass. */
export function percentile(sentences, share) {
  const lengths = sentences.map((sentence) => sentence.split(/\s+/).length).sort((a, b) => a - b);
  return lengths[Math.min(lengths.length - 1, Math.floor(share * lengths.length))] ?? 0;
}
