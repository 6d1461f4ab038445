/**
 * Read the SQL that stands in source files, so that a test can tell whether it has seen all of it.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseAst } from "rolldown/parseAst";

export interface SqlInSource {
  readonly file: string;
  readonly text: string;
  /**
   * Matches each text that the literal can make, as a whole. A `${…}` in it stands for any text.
   */
  readonly pattern: RegExp;
  /** Whether there is a `${…}` in it. */
  readonly hasGaps: boolean;
}

/** What a call is given as SQL. */
export interface Given {
  readonly file: string;
  /** As it stands in the source, in one line. */
  readonly text: string;
  /**
   * `literal`: a text without `${…}`, perhaps by the name of a constant. `statement`: a member of
   * the statements, by its path.
   */
  readonly kind: "literal" | "statement" | "other";
  readonly path: readonly string[];
  /** Of a literal, its text. A `${…}` in it is left out. */
  readonly sql: string;
}

const VERBS = /^\s*(SELECT|INSERT|UPDATE|DELETE|WITH|REPLACE)\s/i;

/**
 * Functions and methods whose first argument is SQL. Some methods have a namesake that takes
 * something else.
 */
const FUNCTIONS: ReadonlySet<string> = new Set(["look", "change", "row", "rowsOf", "changed"]);
const METHODS: ReadonlySet<string> = new Set([
  "prepare",
  "exec",
  "read",
  "readSaves",
  "readLong",
  "of",
]);

interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [key: string]: unknown;
}

/** Visit each file below a directory that is not skipped. */
export function* filesBelow(
  directory: string,
  skipped: readonly string[],
): Generator<{ readonly file: string; readonly source: string }> {
  for (const file of readdirSync(directory, { recursive: true, encoding: "utf8" }))
    if (file.endsWith(".ts") && !skipped.some((prefix) => file.startsWith(prefix)))
      yield { file, source: readFileSync(join(directory, file), "utf8") };
}

/** Find all literals of a file that begin with a verb of SQL. */
export function sqlIn(file: string, source: string): readonly SqlInSource[] {
  return [...nodesIn(source)].flatMap((node) => {
    const parts = partsOf(node);
    const text = parts?.join("…") ?? "";
    return parts !== undefined && VERBS.test(text)
      ? [
          {
            file,
            text,
            pattern: new RegExp(`^${parts.map(escaped).join("[\\s\\S]*")}$`),
            hasGaps: parts.length > 1,
          },
        ]
      : [];
  });
}

/** Find all that a file gives to functions which take SQL. */
export function givenIn(file: string, source: string): readonly Given[] {
  const nodes = [...nodesIn(source)];
  const names = constantsOf(nodes, source);
  return nodes.flatMap((node) => {
    const [first] = (node.type === "CallExpression" ? node.arguments : []) as readonly Node[];
    if (first === undefined || !takesSql(node.callee as Node)) return [];
    return branchesOf(first).map((given) => ({
      file,
      text: textOf(given, source),
      ...kindOf(given, source, names),
    }));
  });
}

/** Both sides of a condition. */
const branchesOf = (node: Node): readonly Node[] =>
  node.type === "ConditionalExpression"
    ? [node.consequent as Node, node.alternate as Node].flatMap(branchesOf)
    : [node];

function kindOf(node: Node, source: string, names: ReadonlyMap<string, Kind>): Kind {
  if (node.type === "Identifier") return names.get(node.name as string) ?? OTHER;
  const parts = partsOf(node);
  // A setting: numbers and names of settings are put into it, and no rows are read by it.
  if (
    parts?.length === 1 ||
    (parts?.[0]?.startsWith("PRAGMA ") && !/SELECT|INSERT|UPDATE|DELETE/i.test(parts.join()))
  )
    return literal(parts);
  const [, path] = /(?:^|[.#])sql\.([\w.]+)$/.exec(textOf(node, source)) ?? [];
  return path === undefined ? OTHER : statement(path.split("."));
}

type Kind = Pick<Given, "kind" | "path" | "sql">;
const literal = (parts: readonly string[]): Kind => ({
  kind: "literal",
  path: [],
  sql: parts.join(""),
});
const statement = (path: readonly string[]): Kind => ({ kind: "statement", path, sql: "" });
const OTHER: Kind = { kind: "other", path: [], sql: "" };

/**
 * Names that always stand for the same: constants with a literal, and members that are taken from
 * the statements. A second meaning takes that.
 */
function constantsOf(nodes: readonly Node[], source: string): ReadonlyMap<string, Kind> {
  const names = new Map<string, Kind>();
  const add = (name: string, kind: Kind) => names.set(name, names.has(name) ? OTHER : kind);
  for (const node of nodes) {
    if (node.type === "VariableDeclarator") {
      const { id, init } = node as Node & { readonly id: Node; readonly init: Node | null };
      const parts = init === null ? undefined : partsOf(init);
      if (id.type === "Identifier" && parts?.length === 1) add(id.name as string, literal(parts));
      if (id.type === "ObjectPattern" && init !== null && /(^|[.#])sql$/.test(textOf(init, source)))
        for (const { key, value } of id.properties as readonly {
          readonly key: Node;
          readonly value: Node;
        }[])
          if (value.type === "Identifier")
            add(value.name as string, statement([key.name as string]));
    }
    for (const param of (node.params ?? []) as readonly Node[])
      if (param.type === "Identifier") add(param.name as string, OTHER);
  }
  return names;
}

/** The fixed parts of a text around its `${…}`. Undefined where it is none. */
function partsOf(node: Node): readonly string[] | undefined {
  if (node.type === "Literal") return typeof node.value === "string" ? [node.value] : undefined;
  if (node.type !== "TemplateLiteral") return undefined;
  return (node.quasis as readonly { readonly value: { readonly cooked: string } }[]).map(
    ({ value }) => value.cooked,
  );
}

function takesSql(callee: Node): boolean {
  if (callee.type !== "MemberExpression") return FUNCTIONS.has(String(callee.name));
  const { type, name } = callee.property as Node;
  return METHODS.has(type === "PrivateIdentifier" ? `#${name}` : String(name));
}

const textOf = ({ start, end }: Node, source: string): string =>
  source.slice(start, end).replace(/\s+/g, " ");

function* nodesIn(source: string): Generator<Node> {
  const open: unknown[] = [parseAst(source, { lang: "ts" })];
  while (open.length > 0) {
    const one = open.pop();
    if (typeof one !== "object" || one === null) continue;
    if ("type" in one && typeof one.type === "string") yield one as Node;
    open.push(...Object.values(one));
  }
}

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
