/**
 * E-mail addresses; and not what only looks like one: accounts of machines, packages with a
 * version, names of files.
 */
import type { Find, Span } from "./redact-spans.js";

const LOCAL = /[A-Za-z0-9._%+'\-\u00a1-\uffff]/;
const DOMAIN = /[A-Za-z0-9.\-\u00a1-\uffff]/;
const MAX_LOCAL = 64;
const MAX_DOMAIN = 255;

/** Looked for from each @: a run of letters without one is not looked over again and again. */
export const findEmails: Find = (text) => {
  const spans: Span[] = [];
  let done = 0;
  for (let at = text.indexOf("@"); at !== -1; at = text.indexOf("@", at + 1)) {
    let from = at;
    while (from > done && at - from < MAX_LOCAL && LOCAL.test(text[from - 1] as string)) from -= 1;
    while (from < at && /[.'+-]/.test(text[from] as string)) from += 1;
    // An escape in a text that holds JSON: its letter is no part of the address.
    if (text[from - 1] === "\\" && /[nrtbf]/.test(text[from] as string)) from += 1;
    let to = at + 1;
    while (to < text.length && to - at <= MAX_DOMAIN && DOMAIN.test(text[to] as string)) to += 1;
    while (to > at && /[.-]/.test(text[to - 1] as string)) to -= 1;
    if (from === at || !isDomain(text.slice(at + 1, to)) || isAccount(text, from, at, to)) continue;
    spans.push([from, to]);
    done = to;
  }
  return spans;
};

/** Endings of names of files, none of which is a domain: `icon@2x.png`, `user@1000.service`. */
const FILES =
  /^(?:png|jpe?g|gif|svg|webp|avif|ico|bmp|tiff?|css|scss|[cm]?[jt]sx?|json|map|html?|ya?ml|lock|txt|log|pdf|tgz|gz|woff2?|ttf|otf|so|dll|exe|service|socket|timer|target|slice|mount)$/i;

/** Names with a dot between them, the last of which is no number: `npm@10.2.3` is no address. */
function isDomain(domain: string): boolean {
  const labels = domain.split(".");
  const last = labels.at(-1) ?? "";
  if (labels.length < 2 || last.length < 2 || /[0-9]/.test(last) || FILES.test(last)) return false;
  return labels.every((label) => label !== "" && label.length <= 63);
}

/**
 * `git@github.com`, `https://ann@host.org`, `scp x ann@host.org:/srv`, and names of the fediverse,
 * `@ann@host.org`.
 */
function isAccount(text: string, from: number, at: number, to: number): boolean {
  if (/^(?:git|hg|svn)$/.test(text.slice(from, at))) return true;
  if (
    /(?::\/\/|(?:^|\s)(?:ssh|scp|sftp|rsync|mosh)(?:\s+-\S+){0,3}\s+|@)$/.test(
      text.slice(Math.max(0, from - 40), from),
    )
  )
    return true;
  return text[to] === ":" && /^:(?:~|[^\s:"'<>]{0,100}\/)/.test(text.slice(to, to + 110));
}
