/** Private keys: blocks of PEM and PGP, and blocks that were encoded once more. */
import { type Find, findAll, findPattern, type Span } from "./redact-spans.js";

const BEGIN = "-----BEGIN ";
const END = "-----END ";
const KEY_BODY = /[A-Za-z0-9+/=\s:,\\-]/;

/** A block from its first line to its last; one that was cut short, as far as it may go on. */
const findBlocks: Find = (text) => {
  const spans: Span[] = [];
  let hasEnd = true;
  for (let from = text.indexOf(BEGIN); from !== -1; ) {
    const head = /^-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----/.exec(
      text.slice(from, from + 120),
    );
    if (head === null) {
      from = text.indexOf(BEGIN, from + 1);
      continue;
    }
    const end = hasEnd ? text.indexOf(END, from) : -1;
    if (end === -1) hasEnd = false;
    let to = from + head[0].length;
    if (end !== -1) to = endOfLine(text, end);
    else while (to < text.length && KEY_BODY.test(text[to] as string)) to += 1;
    spans.push([from, to]);
    from = text.indexOf(BEGIN, to);
  }
  return spans;
};

function endOfLine(text: string, end: number): number {
  const tail = /^-----END [A-Z0-9 ]{1,80}-----/.exec(text.slice(end, end + 120));
  return end + (tail?.[0].length ?? END.length);
}

/** How a block begins in base64, as in a kubeconfig. */
const ENCODED = "LS0tLS1CRUdJTi";
const BASE64 = /[A-Za-z0-9+/=]*/y;

const findEncoded: Find = (text) => {
  const spans: Span[] = [];
  for (let from = text.indexOf(ENCODED); from !== -1; ) {
    const head = Buffer.from(text.slice(from, from + 100), "base64").toString("latin1");
    BASE64.lastIndex = from;
    const isKey = /^-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY/.test(head) && BASE64.test(text);
    if (isKey) spans.push([from, BASE64.lastIndex]);
    from = text.indexOf(ENCODED, isKey ? BASE64.lastIndex : from + 1);
  }
  return spans;
};

/** PuTTY names the lines. */
const findLines: Find = findPattern(
  "Private-Lines: [0-9]{1,3}(?:\\r?\\n|\\\\n)((?:[A-Za-z0-9+/=]{1,80}(?:\\r?\\n|\\\\n|$|(?=\\s)))+)",
  "",
  "Private-Lines",
);

export const findPrivateKeys: Find = findAll(findBlocks, findEncoded, findLines);
