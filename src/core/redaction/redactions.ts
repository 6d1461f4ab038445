/**
 * A ready set of redactions: keys and tokens of well-known shapes, secrets under their names, card
 * numbers, e-inbox messages addresses.
 *
 * REDACTIONS-1  time is linear in the length of a text, with any content: every rule begins at
 *               something that it finds once, and looks no further than a stated length, or to the
 *               end of one word, before it fails. What it has found it passes over.
 * REDACTIONS-2  what was put in the place of something is not found again.
 * REDACTIONS-3  what is found goes whole: rules that see the name or the frame of a secret come
 *               before those that see a part of it.
 */
import { findCards } from "./redact-cards.js";
import { findEmails } from "./redact-emails.js";
import { findHeaders, findPasswords } from "./redact-headers.js";
import { findPrivateKeys } from "./redact-keys.js";
import { findNamed } from "./redact-named.js";
import { type Find, replaceSpans } from "./redact-spans.js";
import type { Redact } from "./redact-text.js";
import { findTokens } from "./redact-tokens.js";
import { ALONE, isSecret, kindOfName } from "./redact-values.js";

/** What there is to find, in the order in which it is looked for (REDACTIONS-3). */
export const redactionNames = [
  "privateKeys",
  "headers",
  "urls",
  "secrets",
  "tokens",
  "cards",
  "emails",
] as const;

export type RedactionName = (typeof redactionNames)[number];

/** For each, whether it is looked for (all are), or what stands in its place. */
export type RedactionChoices = { readonly [K in RedactionName]?: boolean | string };

/** A set of redactions, as `open` and `sessions.redact` take it. */
export interface Redactions extends Redact {
  /** The same for a text wherever it stands, inputs of calls too. */
  readonly everywhere: (text: string, field?: string) => string;
}

export const isReadySet = (redact: Redact): redact is Redactions =>
  typeof (redact as Partial<Redactions>).everywhere === "function";

const RULES: Readonly<
  Record<RedactionName, { readonly find: Find; readonly placeholder: string }>
> = {
  privateKeys: { find: findPrivateKeys, placeholder: "[private key]" },
  headers: { find: findHeaders, placeholder: "[token]" },
  urls: { find: findPasswords, placeholder: "[password]" },
  secrets: { find: findNamed, placeholder: "[secret]" },
  tokens: { find: findTokens, placeholder: "[token]" },
  cards: { find: findCards, placeholder: "[card]" },
  emails: { find: findEmails, placeholder: "[email]" },
};

/**
 * Makes the set. `toolInputs`: whether inputs of calls are gone over as well, with which tools are
 * then run.
 */
export function makeRedactions(choices: RedactionChoices, toolInputs: boolean): Redactions {
  const rules = redactionNames.flatMap((name) => {
    const chosen = choices[name] ?? true;
    return chosen === false
      ? []
      : [
          {
            find: RULES[name].find,
            placeholder: chosen === true ? RULES[name].placeholder : chosen,
          },
        ];
  });
  const secret =
    choices.secrets === false
      ? undefined
      : typeof choices.secrets === "string"
        ? choices.secrets
        : RULES.secrets.placeholder;
  const once = (text: string): string =>
    rules.reduce(
      (edited, { find, placeholder }) => replaceSpans(edited, find(edited), placeholder),
      text,
    );
  const everywhere = (text: string, field?: string): string => {
    let edited = once(text);
    // What was put in the place of one may part another from what stood before it.
    for (let rounds = 0, before = text; edited !== before && rounds < MAX_ROUNDS; rounds++) {
      before = edited;
      edited = once(before);
    }
    if (secret === undefined || field === undefined || text === secret || text.length > MAX_FIELD)
      return edited;
    const kind = kindOfName(field);
    return kind !== undefined && isSecret(kind, text, ALONE) ? secret : edited;
  };
  const redact: Redact = (text, where) =>
    where.in === "tool-input" && !toolInputs ? text : everywhere(text, where.field);
  return Object.assign(redact, { everywhere });
}

const MAX_ROUNDS = 8;
const MAX_FIELD = 10_000;
