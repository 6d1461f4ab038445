/** Compiles a folder of programs as a user does: strict, against the built package. */
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

/** What the compiler says of one place. */
export interface Complaint {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  /** All of it, with the lines that explain it. */
  readonly message: string;
}

const require = createRequire(import.meta.url);
const tsc = join(dirname(require.resolve("typescript/package.json")), "bin", "tsc");

/** The folder must be inside the package: only there `holdfast` is the package itself. */
export function compile(directory: string): readonly Complaint[] {
  const config = {
    compilerOptions: {
      target: "es2023",
      lib: ["es2023", "esnext.disposable"],
      module: "nodenext",
      strict: true,
      noEmit: true,
      skipLibCheck: true,
      types: ["node"],
    },
    include: ["*.ts"],
  };
  writeFileSync(join(directory, "tsconfig.json"), JSON.stringify(config));
  const { stdout, stderr } = spawnSync(process.execPath, [tsc, "-p", ".", "--pretty", "false"], {
    cwd: directory,
    encoding: "utf8",
  });
  if (stderr !== "") throw new Error(stderr);
  const complaints: Complaint[] = [];
  for (const said of stdout.split(/\n(?! )/)) {
    const match = /^([^\s(]+)\((\d+),(\d+)\): error (TS\d+: [\s\S]*)$/.exec(said.trimEnd());
    if (match === null && said.trim() !== "") throw new Error(`The compiler said: ${said}`);
    const [, file = "", line = "", column = "", message = ""] = match ?? [];
    if (match !== null) complaints.push({ file, line: +line, column: +column, message });
  }
  return complaints;
}
