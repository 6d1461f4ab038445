/**
 * Whether a value is a secret, told by the name it stands under and by how it is written:
 * `password: hunter-two` is one, and neither `password: string` nor `token: 4096`.
 */

/** A password may be any word; a key or a token is random, and holds letters and digits. */
export type SecretKind = "password" | "token";

const PASSWORD = /(?:password|passwort|kennwort|passwd|passphrase|passcode|pwd|mnemonic)$/;
const TOKEN = new RegExp(
  "(?:token|secret|secretstring|credentials?|jwt|psk|bindpw|rootpw|^pw|accesskeyid|secretkeybase|keydata" +
    "|(?:api|app|application|access|account|auth|client|consumer|deploy|encryption|function|hmac|host|license|master|private|service|servicerole" +
    "|session|secret|shared|signing|storage|subscription|webhook)key)$",
);
/** Where a list goes on, or when a call is given up. A program needs them to go on. */
const CURSOR = /(?:next|page|continuation|cursor|sync|cancel|cancellation)token$/;

/** A part of every name that counts. */
export const SPEAKS = /pass|pwd?|kennwort|psk|mnemonic|token|secret|cred|jwt|key/i;

/**
 * What a field or a setting of this name holds: `dbPassword`, `X-Api-Key`,
 * `AWS_SECRET_ACCESS_KEY_2`.
 */
export function kindOfName(name: string): SecretKind | undefined {
  if (!SPEAKS.test(name)) return undefined;
  const plain = name.toLowerCase().replace(/[^a-z0-9]/g, "");
  const word = plain.replace(/[0-9]{1,3}$/, "");
  if (PASSWORD.test(word) || /(?:^|[_.-])pass$|[a-z]Pass$/i.test(name))
    return /(?:com|by|tres)pass$/i.test(name) ? undefined : "password";
  return TOKEN.test(word) && !CURSOR.test(word) ? "token" : undefined;
}

export interface Written {
  /** Between quotes, or a value of its own. */
  readonly isQuoted: boolean;
  /** As in `NAME=value` and `--name value`: a word there is a text, and no variable. */
  readonly isLiteral: boolean;
  /** As in `NAME=value`, of a shell or a file of settings: even a path of names is a text there. */
  readonly isSetting: boolean;
  /** At the end of its line, with nothing behind it. */
  readonly isLast: boolean;
}

/** A value of its own, under a field. */
export const ALONE: Written = { isQuoted: true, isLiteral: true, isSetting: true, isLast: true };

const MIN = 6;
const MIN_TOKEN = 8;

export function isSecret(kind: SecretKind, value: string, written: Written): boolean {
  // The cheapest question first: most values are no secrets.
  if (
    value.length < MIN ||
    (kind === "token" && !isMixed(value)) ||
    isReference(value, written) ||
    isFiller(value)
  )
    return false;
  return kind === "password" ? isPassword(value, written) : isToken(value, written);
}

const SECRET_WORD = /pass|pwd|secret|token|key|cred|auth/i;

/** Words that stand under such names in types, schemas, forms and texts about them. */
const WORDS = new Set(
  (
    "string boolean number integer object unknown undefined optional required nullable varchar binary buffer symbol function default static " +
    "readonly private public hidden visible masked hashed encrypted redacted removed invalid incorrect missing expired wrong empty " +
    "enabled disabled always nothing bearer include omitted same-origin value values result results input inputs config options " +
    "settings params request response payload header headers context account changed unchanged changeme policy prompt plaintext forgot reset " +
    "notnull not-null case-sensitive text-field"
  ).split(" "),
);

/** A name of something that holds the value: a variable, a field, a call, a place in a template. */
function isReference(value: string, { isQuoted, isLiteral, isSetting, isLast }: Written): boolean {
  if (
    /^(?:\$\{|\$\(|\{\{|\{%|<|%\(|%[A-Za-z_]{2,60}%|#\{|@\{|!\w|\$[A-Za-z_]|:[a-z_]{2,60}$|\[|\{)/.test(
      value,
    ) ||
    value.includes("${")
  )
    return true;
  if (/^(?:https?|arn|vault|op|ssm|file|env|projects|sha\d{3}):?\/?[:/]/.test(value)) return true;
  if (
    /^(?:process\.env|import\.meta|os\.|env\.|ENV\[|secrets\.|vars?\.|local\.|data\.|config\.|settings\.|this\.|self\.|req\.)/.test(
      value,
    )
  )
    return true;
  // Rules that a form is checked by.
  if (/^(?:required|nullable|sometimes|present|string|confirmed)\|[\w:|,.]+$/.test(value))
    return true;
  if (isQuoted) return false;
  // Code: a path of names, a call, an index; or a name that speaks of secrets itself.
  if (/^[A-Za-z_$][\w$]*(?:(?:\??\.|::|->)[A-Za-z_$][\w$]*)+[!?]?$/.test(value))
    return !isSetting && !(isLiteral && /[0-9]/.test(value));
  if (
    /^[&*!]?[A-Za-z_$][\w$.:>-]*[([]/.test(value) &&
    !isLiteral &&
    !/[([][A-Za-z0-9]+[)\]][A-Za-z0-9]/.test(value)
  )
    return true;
  return (
    !isLiteral &&
    /^[&*]?[A-Za-z_$][\w$]*[!?]?$/.test(value) &&
    SECRET_WORD.test(value) &&
    !(isLast && isOddWord(value))
  );
}

/**
 * A word with digits that is no name of a variable: `monkey12`, and neither `password2` nor
 * `newKey1`.
 */
const isOddWord = (value: string): boolean =>
  /[0-9]/.test(value) &&
  !/[a-z][A-Z]|_|^(?:pass|password|pwd|secret|token|key|auth|cred|credentials?)[0-9]+$/.test(value);

/** What stands where a secret is to be filled in. */
function isFiller(value: string): boolean {
  if (
    /^(?:your|my|enter|insert|replace|change|example|dummy|fake|sample|todo|placeholder)[a-z_ -]*$/i.test(
      value,
    )
  )
    return true;
  return /^(.)\1*$|(?<![xX*.•])[xX*.•]{6,}$|\.\.\.|…/.test(value);
}

function isPassword(value: string, { isQuoted, isLiteral, isLast }: Written): boolean {
  if (/\s/.test(value)) return isPhrase(value, isLiteral);
  if (WORDS.has(value.toLowerCase()) || /^(?:~|\.{0,2}\/|[A-Za-z]:\\)/.test(value)) return false;
  const isWord = /^[\p{L}'_-]+$/u.test(value);
  if (!isWord) return !/[:?…]$/.test(value);
  // A label in a form, or the name of another field.
  if (/^\p{Lu}?\p{Ll}+$/u.test(value) && SECRET_WORD.test(value)) return false;
  if (isQuoted) return !/^\p{Lu}\p{Ll}+$/u.test(value);
  if (isLiteral) return true;
  return isLast && !/[a-z][A-Z]|_/.test(value);
}

/** Several words: a phrase, and no sentence about one. */
const SENTENCE =
  /\b(?:the|your|my|must|should|is|are|be|at|an?|to|of|for|not|and|or|with|please|enter|no|this|in|on|least|characters?|password|passphrase)\b/i;
const isPhrase = (value: string, isLiteral: boolean): boolean =>
  value.length <= 400 &&
  !SENTENCE.test(value) &&
  (SPELT.test(value) ||
    ((value.length >= 12 || isLiteral || /[0-9]/.test(value)) && !/[.?!:…]$/.test(value)));
/** Words with digits or signs among their letters: no sentence has them. */
const SPELT = /[A-Za-z][0-9@#$%^*][A-Za-z]/;

const isMixed = (value: string): boolean =>
  value.length >= MIN_TOKEN &&
  /[0-9]/.test(value) &&
  /[A-Za-z]/.test(value) &&
  (!/\s/.test(value) || isGrouped(value));

/** Letters and digits in groups: `abc 123 def 456`. */
const isGrouped = (value: string): boolean =>
  value.length <= 200 &&
  /^[A-Za-z0-9]{2,8}(?: [A-Za-z0-9]{2,8}){2,}$/.test(value) &&
  /[0-9]{3}.*[0-9]{3}/.test(value) &&
  !SENTENCE.test(value);

function isToken(value: string, { isQuoted }: Written): boolean {
  if (isGrouped(value)) return true;
  // A time, a version, a path, words with a number, a name of a secret.
  if (
    /^[0-9]{4}-[0-9]{2}-[0-9]{2}|^v?[0-9]+(?:\.[0-9]+){1,3}(?:-[a-z]+[.0-9]*)?$|^(?:~|\.{1,2})?\/[a-z0-9_./-]*$/.test(
      value,
    )
  )
    return false;
  if (/^[A-Za-z]+(?:[-_.:/ ](?:[A-Za-z]+|v?[0-9]{1,4}))+$/.test(value)) return false;
  if (
    /^[a-z]+(?:[-_./][a-z0-9]+)*$/.test(value) &&
    SECRET_WORD.test(value) &&
    value.replace(/[^0-9]/g, "").length <= 2
  )
    return false;
  // Code: a name with a number.
  return isQuoted || !/^[A-Za-z_$]+[0-9]{1,2}$/.test(value);
}
