/** What a reviewer found that the rules missed, and what they took for a secret. */
import { ALNUM, BASE64, DIGITS, type Draw, HEX, LETTERS, LOWER, UPPER } from "./draw.js";

const word = (d: Draw): string =>
  `${d.of(LOWER, 4)}${d.of(UPPER, 1)}${d.of(DIGITS, 3)}${d.of(LOWER, 3)}!`;
const BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const SEED = "ridge valley apple scrap tonight drift cargo blade ocean puzzle lemon artist";

type Made = readonly [
  kind: string,
  make: (draw: Draw) => string,
  write: (secret: string) => string,
];

export const missed: readonly Made[] = [
  ["value with dots", (d) => `s.${d.of(ALNUM, 24)}`, (s) => `VAULT_TOKEN=${s}`],
  ["value with dots", (d) => `abc.def${d.of(DIGITS, 3)}`, (s) => `DB_PASSWORD=${s}`],
  ["value with dots", () => "my.dog.rex", (s) => `PASSWORD=${s}`],
  ["value with dots", (d) => `live.${d.of(HEX, 16)}`, (s) => `api_key=${s}`],
  ["password like a name", () => "monkey12", (s) => `password: ${s}`],
  ["password like a name", () => "Passw0rd", (s) => `user: ann\npassword: ${s}\nport: 1`],
  ["password like a name", () => "mypassword1", (s) => `password = ${s}`],
  ["password like a name", () => "key2success9", (s) => `password: ${s}`],
  ["talk", word, (s) => `the password for staging is ${s}`],
  ["talk", word, (s) => `log in with user admin and password ${s}`],
  ["talk", (d) => d.of(BASE64, 40), (s) => `my AWS secret access key is ${s}`],
  ["pw", word, (s) => `pw: ${s}`],
  ["german", word, (s) => `Das Passwort lautet ${s}`],
  ["german", () => "Sommer2024!", (s) => `Passwort: ${s}`],
  ["asana token", (d) => `1/${d.of(DIGITS, 16)}:${d.of(HEX, 32)}`, (s) => `ASANA_TOKEN=${s}`],
  ["mnemonic", () => SEED, (s) => `mnemonic: ${s}`],
  ["mnemonic", () => SEED, (s) => `my seed phrase is ${s}, keep it`],
  ["secret string", word, (s) => `"secret_string": "${s}"`],
  ["wpa key", word, (s) => `network={\n  psk="${s}"\n}`],
  ["ldap", word, (s) => `bindpw ${s}`],
  ["command", word, (s) => `sqlcmd -S h -U sa -P ${s}`],
  ["command", word, (s) => `snowsql -a x -u ann -p ${s}`],
  ["command", word, (s) => `ConvertTo-SecureString '${s}' -AsPlainText -Force`],
  [
    "putty key",
    (d) => `${d.of(BASE64, 64)}\n${d.of(BASE64, 44)}`,
    (s) => `Private-Lines: 2\n${s}\nPrivate-MAC: 00`,
  ],
  ["wifi code", word, (s) => `WIFI:T:WPA;S:net;P:${s};;`],
  ["old notion key", (d) => `secret_${d.of(ALNUM, 43)}`, (s) => `here it is ${s} thanks`],
  ["bitcoin key", (d) => `5${d.of(BASE58, 50)}`, (s) => `wif: ${s}`],
  ["password hash", (d) => `$apr1$${d.of(ALNUM, 8)}$${d.of(ALNUM, 22)}`, (s) => `ann:${s}`],
  ["password hash", (d) => `$2y$10$${d.of(ALNUM, 53)}`, (s) => `ann:${s}`],
  [
    "on the next line",
    (d) => `hunter${d.of(DIGITS, 2)}${d.of(LETTERS, 2)}`,
    (s) => `db:\n  password:\n    ${s}\n  port: 1`,
  ],
  [
    "key of groups",
    (d) => `abc ${d.of(DIGITS, 3)} def ${d.of(DIGITS, 3)}`,
    (s) => `api_key: "${s}"`,
  ],
  ["sentry dsn", (d) => d.of(HEX, 32), (s) => `SENTRY_DSN=https://${s}@o123.ingest.sentry.io/456`],
];

export const harmless = String.raw`
https://user@host.example.com/path
'password' => 'required|min:8'
'password' => 'required|string|confirmed'
password: dbPassword
password: password1
password: newPassword1,
password = user_password2
token: accessToken2
t.password=e.value;this.token=e.token
password=form.password.value
login(user, password=cfg.password)
the password for the account is stored in base64
the api key for staging is kept in 1Password
pw: playwright
pw = page.width
secret_string: required
password:\n  type: string
the user and password fields are required
bindpw is an option of nslcd
"token": "expires in 15 minutes"
PASSWORD_RESET_URL=app.example.com
`;
