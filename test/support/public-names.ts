/**
 * The public names of the package: what each entry exports, and the methods of it, with their doc
 * comments. They are read from the sources, which Biome formats: a member of a class stands two
 * spaces in.
 */
import { readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("../..", import.meta.url));

const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  readonly exports: Readonly<Record<string, string | { readonly default: string }>>;
};

/** An entry of package.json, as `holdfast/formats`, and the source it is built from. */
export interface Entry {
  readonly name: string;
  readonly file: string;
}

export const entries: readonly Entry[] = Object.entries(manifest.exports).flatMap(([at, target]) =>
  typeof target === "string"
    ? []
    : [
        {
          name: at.replace(/^\./, "holdfast"),
          file: join(root, target.default.replace(/^\.\/dist/, "src").replace(/\.js$/, ".ts")),
        },
      ],
);

/** A name that a program can import, or a method of one: `Sessions.fork`. */
export interface PublicName {
  readonly name: string;
  /** `class`, `interface`, `type`, `const`, `function`, or `method`. */
  readonly kind: string;
  readonly file: string;
  /** The text of the doc comment, without its stars; undefined where there is none. */
  readonly doc: string | undefined;
  /** The declaration, from its first line on; for a method, with each of its signatures. */
  readonly text: string;
}

const texts = new Map<string, string>();

function textOf(file: string): string {
  const text = texts.get(file) ?? readFileSync(file, "utf8");
  texts.set(file, text);
  return text;
}

const LISTS = /^export (?:type )?\{([^}]*)\} from "([^"]+)";$/gms;
const OWN = /^export (?:abstract |async )*(?:class|interface|type|const|function)\*? (\w+)/gm;

/** Each name that a file exports, and the file that declares it. */
function exportsOf(file: string): ReadonlyMap<string, string> {
  const text = textOf(file);
  const found = new Map<string, string>();
  for (const [, name = ""] of text.matchAll(OWN)) found.set(name, file);
  for (const [, list = "", from = ""] of text.matchAll(LISTS)) {
    const source = join(dirname(file), from.replace(/\.js$/, ".ts"));
    const there = exportsOf(source);
    for (const entry of list.split(",").map((part) => part.trim().replace(/^type /, ""))) {
      const [name = "", as = name] = entry.split(" as ");
      if (name !== "") found.set(as, there.get(name) ?? source);
    }
  }
  return found;
}

const escaped = (name: string): string => name.replace(/[.[\]$]/g, "\\$&");

/** The doc comment that ends where a declaration begins. */
function docBefore(text: string, at: number): string | undefined {
  const found = /\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\n$/.exec(text.slice(0, at));
  return found?.[1]
    ?.split("\n")
    .map((line) => line.replace(/^\s*\* ?/, "").trimEnd())
    .join("\n")
    .trim();
}

function declared(name: string, file: string): readonly PublicName[] {
  const text = textOf(file);
  const pattern = new RegExp(
    `^export (?:abstract |async )*(class|interface|type|const|function)\\*? ${escaped(name)}\\b`,
    "m",
  );
  const match = pattern.exec(text);
  if (match === null) throw new Error(`${relative(root, file)} does not declare ${name}.`);
  const [, kind = ""] = match;
  const end = text.slice(match.index).search(/^(?:\}|[^\s})].*;)$/m);
  const whole = text.slice(match.index, end === -1 ? undefined : match.index + end + 1);
  const own = { name, kind, file, doc: docBefore(text, match.index), text: whole };
  const hasMethods = kind === "class" || kind === "interface";
  return [own, ...(hasMethods ? methodsIn(own, whole) : [])];
}

const METHOD = /^ {2}(?:async |get |\*)*([a-zA-Z]\w*)[<(]/gm;
const HIDDEN = ["constructor"];

function methodsIn(owner: PublicName, body: string): readonly PublicName[] {
  const found = new Map<string, PublicName>();
  for (const match of body.matchAll(METHOD)) {
    const [, name = ""] = match;
    if (HIDDEN.includes(name)) continue;
    const rest = body.slice(match.index);
    const [chunk = ""] = rest.split(/\n\n|(?<=;)\n(?= {2}[\w/])/);
    const before = found.get(name);
    const doc = before === undefined ? docBefore(body, match.index) : before.doc;
    if (doc?.startsWith("@internal") === true) continue;
    found.set(name, {
      name: `${owner.name}.${name}`,
      kind: "method",
      file: owner.file,
      doc,
      text: before === undefined ? chunk : `${before.text}\n${chunk}`,
    });
  }
  return [...found.values()];
}

/** What an entry exports, and the methods of its classes and interfaces. */
export const namesOf = ({ file }: Entry): readonly PublicName[] =>
  [...exportsOf(file)].flatMap(([name, source]) => declared(name, source));

/** The doc comments of all sources, with the examples in them. */
export function examplesIn(files: readonly string[]): readonly { file: string; code: string }[] {
  return files.flatMap((file) =>
    [...textOf(file).matchAll(/\/\*\*((?:(?!\*\/)[\s\S])*)\*\//g)].flatMap(([, comment = ""]) => {
      const lines = comment.split("\n").map((line) => line.replace(/^\s*\* ?/, "").trimEnd());
      const at = lines.indexOf("@example");
      return at === -1
        ? []
        : [
            {
              file,
              code: lines
                .slice(at + 1)
                .join("\n")
                .trim(),
            },
          ];
    }),
  );
}

/** A parameter, or what a call answers, as the source says it. */
export interface Signature {
  readonly parameters: readonly { readonly name: string; readonly type: string }[];
  readonly answer: string;
}

const OPENING = "([{<";
const CLOSING = ")]}>";

/** Where the bracket at a place is closed again. The `>` of an arrow closes nothing. */
function closingOf(text: string, at: number): number {
  let depth = 0;
  for (let i = at; i < text.length; i++) {
    const char = text[i] as string;
    if (OPENING.includes(char)) depth += 1;
    else if (CLOSING.includes(char) && text[i - 1] !== "=" && --depth === 0) return i;
  }
  throw new Error(`A bracket is not closed: ${text}`);
}

/** The parts of a text between commas that stand in no bracket. */
function split(text: string): readonly string[] {
  const parts: string[] = [];
  let from = 0;
  for (let i = 0; i <= text.length; i++) {
    const char = text[i];
    if (char !== undefined && OPENING.includes(char)) i = closingOf(text, i);
    else if (char === "," || char === undefined) {
      parts.push(text.slice(from, i).trim());
      from = i + 1;
    }
  }
  return parts.filter((part) => part !== "");
}

/** The signatures of a function or a method; those of an overload one after the other. */
export function signaturesOf({ kind, text, name }: PublicName): readonly Signature[] {
  if (kind !== "function" && kind !== "method") return [];
  const own = name.split(".").at(-1) as string;
  const starts = [
    ...text.matchAll(new RegExp(`^ {0,2}(?:[a-z*]+ )*${escaped(own)}(?=[<(])`, "gm")),
  ];
  return starts.map(({ index, 0: head }) => {
    let at = index + head.length;
    if (text[at] === "<") at = closingOf(text, at) + 1;
    const end = closingOf(text, at);
    const answer = /^: ([\s\S]*?)(?: \{)?;?$/m.exec(text.slice(end + 1))?.[1] ?? "void";
    const parameters = split(text.slice(at + 1, end)).map((parameter) => {
      const [, called = "", type = ""] =
        /^(\.{0,3}[\w{} ,:?]+?)\??: ([\s\S]+)$/.exec(parameter) ?? [];
      return { name: called, type };
    });
    return { parameters, answer };
  });
}
