/** All bytes of a store, to look for what must not be there. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";

/** The files of a store on disk: those of a directory, or a file and what stands beside it. */
function filesOf(address: string): string[] {
  const path = address.replace(/^dir:/, "");
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory())
    return readdirSync(path, { recursive: true, withFileTypes: true }).flatMap((entry) =>
      entry.isFile() ? [join(entry.parentPath, entry.name)] : [],
    );
  return readdirSync(dirname(path))
    .filter((name) => name.startsWith(basename(path)))
    .map((name) => join(dirname(path), name));
}

/**
 * The forms in which a text may stand in a file: as it is, inside JSON, in UTF-16, and any sixteen
 * bytes of a long one.
 */
function formsOf(text: string): Buffer[] {
  const inJson = (plain: string) => JSON.stringify(plain).slice(1, -1);
  const ascii = inJson(text).replace(
    /[^ -~]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  const utf8 = Buffer.from(text);
  const pieces =
    utf8.length < 32
      ? []
      : Array.from({ length: utf8.length - 15 }, (_, i) => utf8.subarray(i, i + 16));
  return [
    utf8,
    Buffer.from(inJson(text)),
    Buffer.from(ascii),
    Buffer.from(text, "utf16le"),
    ...pieces,
  ];
}

/** The names of the files that hold a text, in any form. */
export function filesWith(address: string, text: string): string[] {
  const forms = formsOf(text);
  return filesOf(address).filter((file) => {
    const bytes = readFileSync(file);
    return forms.some((form) => bytes.includes(form));
  });
}
