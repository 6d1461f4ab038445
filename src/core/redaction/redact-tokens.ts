/**
 * Keys and tokens that say themselves what they are, by the prefix that their vendor gives them.
 *
 * A row is a prefix, and a pattern that begins with it. A pattern takes all of the word, so that
 * nothing of a token stays, and fails within a bounded length.
 */
import { type Find, findAll, findPattern, isStart, type Span } from "./redact-spans.js";

/** That a digit is near: a random text, and no chain of words. */
const DIGIT = "(?=[A-Za-z0-9_-]{0,60}[0-9])";
const WORD = "[A-Za-z0-9_-]";
const HEX = "[0-9a-f]";
const END = "(?![A-Za-z0-9])";

const prefixed: readonly (readonly [prefix: string, rest: string])[] = [
  // Models.
  ["sk-ant-", `${DIGIT}${WORD}{16,}`],
  [
    "sk-",
    `(?:(?:proj|svcacct|admin|None|or|lf)-${DIGIT}${WORD}{20,}|(?=[A-Za-z0-9]{0,30}[0-9])[A-Za-z0-9]{20,}${WORD}*)`,
  ],
  ["hf_", "[A-Za-z0-9]{30,}"],
  ["gsk_", "[A-Za-z0-9]{40,}"],
  ["xai-", "[A-Za-z0-9]{60,}"],
  ["pplx-", "[A-Za-z0-9]{40,}"],
  ["r8_", "[A-Za-z0-9]{30,}"],
  ["nvapi-", `${WORD}{50,}`],
  ["lsv2_", `(?:pt|sk)_${HEX}{32}_${HEX}{10}`],
  ["tvly-", `${DIGIT}${WORD}{20,}`],
  ["pcsk_", "[A-Za-z0-9_]{40,}"],
  ["csk-", "[a-z0-9]{40,}"],
  ["api_org_", "[A-Za-z0-9]{30,}"],
  ["jina_", `${DIGIT}${WORD}{40,}`],
  // Clouds and operations.
  ["AKIA", `[A-Z0-9]{16}${END}`],
  ["ASIA", `[A-Z0-9]{16}${END}`],
  ["ABIA", `[A-Z0-9]{16}${END}`],
  ["ACCA", `[A-Z0-9]{16}${END}`],
  ["ABSK", "[A-Za-z0-9+/]{100,}={0,2}"],
  ["bedrock-api-key-", "[A-Za-z0-9+/=]{28,}"],
  ["AIza", `${WORD}{35,}`],
  ["ya29.", "[A-Za-z0-9._-]{20,}"],
  ["GOCSPX-", `${WORD}{20,}`],
  ["1//0", `${WORD}{40,}`],
  ["LTAI", `(?=[A-Za-z0-9]{0,20}[0-9])[A-Za-z0-9]{16,26}${END}`],
  ["dop_v1_", `${HEX}{40,}`],
  ["doo_v1_", `${HEX}{40,}`],
  ["dor_v1_", `${HEX}{40,}`],
  ["HRKU-", `${WORD}{30,}`],
  ["nfp_", "[A-Za-z0-9]{30,}"],
  ["fm1", "[ar]?_[A-Za-z0-9+/=_-]{60,}"],
  ["fm2_", "[A-Za-z0-9+/=_-]{60,}"],
  ["fo1_", `${WORD}{40,}`],
  ["tskey-", `[a-z]{2,12}-${WORD}{20,}`],
  ["hvs.", `${WORD}{20,}`],
  ["hvb.", `${WORD}{20,}`],
  ["hvr.", `${WORD}{20,}`],
  ["pul-", `${HEX}{40}`],
  ["dp.", `(?:pt|st|ct|sa|scim|audit)\\.[A-Za-z0-9_.-]{40,}`],
  ["pscale_", `(?:tkn|pw|oauth)_${WORD}{30,}`],
  ["sbp_", `${HEX}{40,}`],
  ["sb_secret_", `${WORD}{20,}`],
  ["napi_", "[a-z0-9]{40,}"],
  ["glsa_", "[A-Za-z0-9]{32}_[0-9a-fA-F]{8}"],
  ["glc_", "[A-Za-z0-9+/=]{40,}"],
  ["NRAK-", "[A-Z0-9]{20,}"],
  ["sntryu_", `${HEX}{40,}`],
  ["sntrys_", "[A-Za-z0-9+/=_-]{40,}"],
  ["dt0c01.", "[A-Z0-9]{24}\\.[A-Z0-9]{64}"],
  ["dapi", `${HEX}{32}(?:-[0-9]{1,2})?${END}`],
  ["AGE-SECRET-KEY-1", "[A-Z0-9]{50,}"],
  ["ops_eyJ", "[A-Za-z0-9+/=_-]{100,}"],
  [
    "A3-",
    "[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}",
  ],
  ["v1.0-", `${HEX}{24}-${HEX}{100,}`],
  ["sha256~", `${WORD}{43}`],
  ["pnu_", "[A-Za-z0-9]{36}"],
  ["ico-", "[A-Za-z0-9]{32}"],
  ["tk-us-", `${WORD}{40,}`],
  ["API-", `(?=[A-Z]{0,20}[0-9])[A-Z0-9]{25,}${END}`],
  ["eyJrIjoi", "[A-Za-z0-9+/=]{60,}"],
  // Code.
  ["ghp_", "[A-Za-z0-9]{30,}"],
  ["gho_", "[A-Za-z0-9]{30,}"],
  ["ghs_", "[A-Za-z0-9]{30,}"],
  ["ghu_", "[A-Za-z0-9]{30,}"],
  ["ghr_", "[A-Za-z0-9]{30,}"],
  ["github_pat_", "[A-Za-z0-9_]{22,}"],
  [
    "gl",
    `(?:pat|dt|rt|cbt|ptt|soat|ft|imt|agent|ffct|oas)-${WORD}{20,}(?:\\.[A-Za-z0-9]{2}\\.[A-Za-z0-9]{7,})?`,
  ],
  ["npm_", `[A-Za-z0-9]{36,}`],
  ["pypi-AgE", `${WORD}{50,}`],
  ["rubygems_", `${HEX}{40,}`],
  ["cio", `(?=[A-Za-z]{0,31}[0-9])[A-Za-z0-9]{32}${END}`],
  ["dckr_", `[po]at_${WORD}{20,}`],
  ["ATATT3", "[A-Za-z0-9_=-]{60,}"],
  ["ATCTT3", "[A-Za-z0-9_=-]{60,}"],
  ["ATBB", `(?=[A-Za-z]{0,31}[0-9])[A-Za-z0-9]{32}${END}`],
  ["sq", `[apu]_${HEX}{40,}`],
  ["bkua_", `${HEX}{40,}`],
  ["CLOJARS_", "[a-z0-9]{60}"],
  ["AKCp", "[A-Za-z0-9]{60,}"],
  ["cmVmdGtu", "[A-Za-z0-9]{50,}"],
  ["GR1348941", `${WORD}{20,}`],
  ["sgp_", "(?:[A-Za-z0-9]{1,16}_)?[0-9a-fA-F]{40}"],
  // Messages, shops, offices.
  ["xox", "[abceoprs](?:\\.xox[a-z])?-[A-Za-z0-9-]{10,}"],
  ["xapp-", "[A-Za-z0-9-]{10,}"],
  ["SG.", `${WORD}{16,32}\\.${WORD}{16,}`],
  ["SK", `${HEX}{32}${END}`],
  ["key-", `${HEX}{32}${END}`],
  ["xkeysib-", `${HEX}{64}-[A-Za-z0-9]{16,}`],
  ["xsmtpsib-", `${HEX}{64}-[A-Za-z0-9]{16,}`],
  ["re_", `(?=[A-Za-z0-9_]{0,33}[0-9])[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}`],
  ["sk_", `(?:live|test)_[A-Za-z0-9]{10,}`],
  ["pk_", `(?:live|test)_[A-Za-z0-9]{10,}`],
  ["rk_", `(?:live|test)_[A-Za-z0-9]{10,}`],
  ["whsec_", "[A-Za-z0-9+/=]{16,}"],
  ["EAA", `(?=[A-Za-z_-]{0,40}[0-9])${WORD}{57,}`],
  ["sq0", `(?:atp|csp)-${WORD}{22,}`],
  ["shp", `(?:at|ca|pa|ss)_[0-9a-fA-F]{32}`],
  ["access_token$", `(?:production|sandbox)\\$[a-z0-9]{16}\\$${HEX}{32}`],
  ["lin_", "(?:api|oauth)_[A-Za-z0-9]{32,}"],
  ["secret_", `(?=[A-Za-z]{0,42}[0-9])[A-Za-z0-9]{43}${END}`],
  ["ntn_", "[A-Za-z0-9]{40,}"],
  ["figd_", `${WORD}{36,}`],
  ["pat", `(?:[A-Za-z0-9]{14}\\.${HEX}{64}|-[a-z]{2}[0-9]-${HEX}{8}-[0-9a-f-]{27})`],
  ["p8e-", "[a-z0-9]{32}"],
  ["duffel_", "(?:live|test)_[A-Za-z0-9_=-]{40,}"],
  ["EZ", "[AT]K[A-Za-z0-9]{54}"],
  ["fio-u-", "[A-Za-z0-9_=-]{60,}"],
  ["FLWSECK", "(?:_TEST)?-[A-Za-z0-9-]{12,}"],
  ["rdme_", "[a-z0-9]{60,}"],
  ["shippo_", `(?:live|test)_[0-9a-fA-F]{40}`],
  ["tfp_", "[A-Za-z0-9_.-]{40,}"],
  ["PMAK-", `${HEX}{24}-${HEX}{34}`],
  ["CFPAT-", `${WORD}{40,}`],
  ["ph", "[xa]_[A-Za-z0-9]{40,}"],
  // Dropbox.
  ["sl.", `(?:u\\.)?${WORD}{120,}`],
];

/** Rows by prefix: each occurrence is looked at once, and what is taken is passed over. */
const byPrefix = prefixed.map(([prefix, rest]): Find => {
  const at = new RegExp(rest, "y");
  return (text) => {
    const spans: Span[] = [];
    for (let from = text.indexOf(prefix); from !== -1; ) {
      at.lastIndex = from + prefix.length;
      const isFound = isStart(text, from) && at.test(text);
      if (isFound) spans.push([from, at.lastIndex]);
      from = text.indexOf(prefix, isFound ? at.lastIndex : from + 1);
    }
    return spans;
  };
});

/** One start to a word: a long run of its letters is looked over once. */
const ONCE = "(?<!(?<!\\\\|%[0-9A-F]|\\[[0-9;]{0,8})[A-Za-z0-9_-])";

export const findTokens: Find = findAll(
  ...byPrefix,
  findPattern(`${ONCE}eyJ${WORD}{5,}\\.${WORD}{5,}(?:\\.${WORD}*){1,3}`, "", "eyJ"),
  // Discord: an id, a time, and a signature.
  findPattern(`${ONCE}[MNO][A-Za-z0-9_-]{22,27}\\.${WORD}{6}\\.${WORD}{27,}`, "", "."),
  // Telegram: behind `bot` in its addresses.
  findPattern(`(?<![0-9])[0-9]{8,10}:AA${WORD}{30,}`, "", ":AA"),
  // Entra ID, which was Azure AD.
  findPattern("[A-Za-z0-9_.~-]{3}[0-9]Q~[A-Za-z0-9_.~-]{30,}", "", "Q~"),
  findPattern(`${ONCE}[A-Za-z0-9]{14}\\.atlasv1\\.${WORD}{40,}`, "", ".atlasv1."),
  // Asana.
  findPattern(`(?<![0-9/])[12]\\/[0-9]{10,20}(?:\\/[0-9]{10,20})?:${HEX}{32}${END}`, "", "/"),
  // Hashes of passwords: crypt and bcrypt.
  findPattern(
    "\\$(?:apr1|1|5|6)\\$(?:rounds=[0-9]{1,9}\\$)?[./A-Za-z0-9]{1,16}\\$[./A-Za-z0-9]{22,86}",
    "",
    "$",
  ),
  findPattern("\\$2[abxy]\\$[0-9]{2}\\$[./A-Za-z0-9]{53}", "", "$2"),
  findPattern(`${ONCE}${HEX}{32}-us[0-9]{1,2}${END}`, "", "-us"),
  findPattern(
    "hooks\\.slack\\.com\\/(?:services|workflows|triggers)\\/([A-Za-z0-9\\/_-]{8,})",
    "",
    "hooks.slack.com",
  ),
  findPattern(
    "webhook\\.office\\.com\\/webhookb2\\/([A-Za-z0-9@\\/_-]{30,})",
    "",
    "webhook.office.com",
  ),
  findPattern(
    `discord(?:app)?\\.com\\/api\\/webhooks\\/[0-9]{10,25}\\/(${WORD}{30,})`,
    "",
    "/api/webhooks/",
  ),
);
