/** Secrets where people leave them: settings, code, commands, headers, logs, talk. */
import {
  ALNUM,
  BASE64,
  DIGITS,
  type Draw,
  drawFrom,
  HEX,
  LETTERS,
  LOWER,
  UPPER,
  URL64,
  uuid,
} from "./draw.js";
import { type Kind, kinds } from "./kinds.js";
import { missed } from "./reviewed.js";

export interface Positive {
  readonly kind: string;
  readonly context: string;
  readonly text: string;
  /** No six characters in a row of it may stay. */
  readonly secret: string;
  /** The field that a text stands under, where it is a value of its own. */
  readonly field?: string;
}

type Context = readonly [context: string, write: (secret: string, name: string) => string];

const camel = (name: string): string =>
  name.toLowerCase().replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
const kebab = (name: string): string => name.toLowerCase().replaceAll("_", "-");
const snake = (name: string): string => name.toLowerCase();

/** A setting with its name. */
const settings: readonly Context[] = [
  ["env line", (s, n) => `NODE_ENV=production\n${n}=${s}\nPORT=3000`],
  ["quoted env line", (s, n) => `${n}="${s}"`],
  ["json", (s, n) => JSON.stringify({ region: "eu-west-1", [camel(n)]: s, retries: 3 })],
  ["yaml", (s, n) => `service:\n  ${snake(n)}: ${s}\n  replicas: 2`],
  ["code", (s, n) => `const ${camel(n)} = "${s}";`],
  ["typed code", (s, n) => `const ${camel(n)}: string = '${s}';`],
  ["export", (s, n) => `$ export ${n}='${s}' && npm start`],
  [
    "json in a text",
    (s, n) => JSON.stringify({ log: JSON.stringify({ [snake(n)]: s, ok: true }) }),
  ],
  ["python", (s, n) => `client = Client(${snake(n)}="${s}", timeout=30)`],
  ["toml", (s, n) => `[auth]\n${snake(n)} = "${s}"`],
  ["docker", (s, n) => `docker run --rm -e ${n}='${s}' -p 8080:80 app:1.2`],
  ["log line", (s, n) => `2024-05-01T10:22:31Z WARN  boot: ${snake(n)}=${s} (from environment)`],
  ["flag", (s, n) => `deploy --region eu --${kebab(n)} '${s}' --yes`],
  ["diff", (s, n) => `-${n}=\n+${n}=${s}\n unchanged`],
  ["table", (s, n) => `| \`${n}\` | \`${s}\` |\n${n}: \`${s}\``],
];

/** A secret that says itself what it is. */
const plain: readonly Context[] = [
  ["alone", (s) => s],
  ["sentence", (s) => `I made a new one for you, it is ${s}. Keep it safe.`],
  ["header", (s) => `curl -H "X-Custom: ${s}" https://api.internal/v1`],
  ["url query", (s) => `GET /v1/items?limit=5&k=${s}&page=2 HTTP/1.1`],
  ["bearer", (s) => `-H 'Authorization: Bearer ${s}'`],
  ["list", (s) => `["${s}","other"]`],
  ["parentheses", (s) => `retry with (${s}) failed`],
  ["csv", (s) => `17,ann,${s},active`],
  ["escaped line", (s) => `{"out":"done\\n${s}\\nbye"}`],
  ["colour", (s) => `\u001b[32m${s}\u001b[0m`],
];

/** A table cannot hold these: they would end its cell. */
const SIGNS = /[&(),;]/;

function inContexts(kind: Kind, index: number, draw: Draw): Positive[] {
  const pool = kind.isNamed ? settings : [...settings, ...plain];
  // Seven contexts for each, others for the next.
  return Array.from({ length: 7 }, (_, i) => pool[(index * 5 + i * 4) % pool.length] as Context)
    .filter(([context], i, all) => all.findIndex(([other]) => other === context) === i)
    .map(([context, write]) => {
      const secret = kind.make(draw);
      if (context === "table" && SIGNS.test(secret)) return undefined;
      return { kind: kind.kind, context, text: write(secret, kind.name), secret };
    })
    .filter((made) => made !== undefined);
}

const pem = (draw: Draw, type: string, lines: number, newline: string): string =>
  [
    `-----BEGIN ${type}-----`,
    ...Array.from({ length: lines }, () => draw.of(BASE64, 64)),
    `-----END ${type}-----`,
  ].join(newline);

/** Secrets that are found by what stands around them. */
const around: readonly (readonly [
  kind: string,
  make: (d: Draw) => readonly [text: string, secret: string],
])[] = [
  [
    "basic header",
    (d) =>
      wrap(
        Buffer.from(`ann:${d.of(ALNUM, 12)}`).toString("base64"),
        (s) => `Authorization: Basic ${s}\r\nAccept: */*`,
      ),
  ],
  [
    "basic header",
    (d) =>
      wrap(
        Buffer.from(`bob:${d.of(ALNUM, 9)}`).toString("base64"),
        (s) => `{"headers":{"authorization":"Basic ${s}"}}`,
      ),
  ],
  ["token header", (d) => wrap(d.of(HEX, 40), (s) => `Authorization: Token ${s}`)],
  [
    "token header",
    (d) => wrap(d.of(HEX, 40), (s) => `requests.get(url, headers={"Authorization": "Token ${s}"})`),
  ],
  [
    "token header",
    (d) =>
      wrap(d.of(HEX, 32), (s) => `curl -H 'Authorization: Token token=${s}' https://x.example`),
  ],
  ["api key header", (d) => wrap(d.of(URL64, 30), (s) => `Authorization: ApiKey ${s}`)],
  ["ssws header", (d) => wrap(`00${d.of(URL64, 40)}`, (s) => `authorization: SSWS ${s}`)],
  ["header without a scheme", (d) => wrap(d.of(ALNUM, 40), (s) => `Authorization: ${s}`)],
  [
    "header without a scheme",
    (d) => wrap(d.of(ALNUM, 40), (s) => `fetch(url, { headers: { Authorization: "${s}" } })`),
  ],
  ["bearer header", (d) => wrap(d.of(ALNUM, 36), (s) => `> authorization: bearer ${s}`)],
  [
    "bearer header",
    (d) => wrap(d.of(URL64, 44), (s) => `headers: { Authorization: \`Bearer ${s}\` },`),
  ],
  ["x-api-key header", (d) => wrap(d.of(ALNUM, 32), (s) => `X-Api-Key: ${s}`)],
  [
    "x-api-key header",
    (d) => wrap(d.of(ALNUM, 32), (s) => `curl -H "x-api-key: ${s}" https://api.example/v1`),
  ],
  ["x-auth-token header", (d) => wrap(d.of(HEX, 32), (s) => `X-Auth-Token: ${s}\nHost: example`)],
  ["subscription key header", (d) => wrap(d.of(HEX, 32), (s) => `Ocp-Apim-Subscription-Key: ${s}`)],
  ["private token header", (d) => wrap(d.of(ALNUM, 20), (s) => `PRIVATE-TOKEN: ${s}`)],
  [
    "aws signature",
    (d) =>
      wrap(
        d.of(HEX, 64),
        (s) =>
          `Authorization: AWS4-HMAC-SHA256 Credential=x/20240501/eu-west-1/s3/aws4_request, SignedHeaders=host, Signature=${s}`,
      ),
  ],
  ["cookie", (d) => wrap(d.of(ALNUM, 32), (s) => `Cookie: theme=dark; sessionid=${s}; lang=en`)],
  ["cookie", (d) => wrap(d.of(HEX, 26), (s) => `cookie: PHPSESSID=${s}`)],
  [
    "cookie",
    (d) =>
      wrap(
        `s%3A${d.of(URL64, 32)}.${d.of(BASE64, 43)}`,
        (s) => `Set-Cookie: connect.sid=${s}; Path=/; HttpOnly`,
      ),
  ],
  [
    "cookie",
    (d) =>
      wrap(d.of(URL64, 40), (s) => `{"set-cookie":["__Host-session=${s}; Secure; SameSite=Lax"]}`),
  ],
  ["cookie", (d) => wrap(d.of(HEX, 32), (s) => `curl -b 'JSESSIONID=${s}' https://app.example/me`)],
  [
    "cookie",
    (d) => wrap(d.of(HEX, 32), (s) => `curl --cookie "auth=${s}; a=b" https://app.example/me`),
  ],
  [
    "curl user",
    (d) => wrap(d.of(ALNUM, 14), (s) => `curl -u admin:${s} https://jenkins.example/api/json`),
  ],
  ["curl user", () => wrap("hunter-two", (s) => `curl -s -u 'ann:${s}' https://x.example`)],
  [
    "curl user",
    (d) =>
      wrap(d.of(ALNUM, 10), (s) => `$ curl --user "ci:${s}" -X POST https://nexus.example/upload`),
  ],
  [
    "password in a url",
    (d) => wrap(d.of(ALNUM, 16), (s) => `DATABASE_URL=postgres://app:${s}@db.internal:5432/app`),
  ],
  [
    "password in a url",
    (d) =>
      wrap(
        `${d.of(ALNUM, 6)}@${d.of(ALNUM, 6)}`,
        (s) => `mongodb+srv://root:${s}@cluster0.abcde.mongodb.net/?retryWrites=true`,
      ),
  ],
  [
    "password in a url",
    (d) =>
      wrap(
        `${d.of(ALNUM, 6)}/${d.of(ALNUM, 6)}`,
        (s) => `amqp://guest:${s}@mq.example.com:5672/vhost`,
      ),
  ],
  ["password in a url", (d) => wrap(d.of(LETTERS, 12), (s) => `redis://:${s}@cache:6379/0`)],
  [
    "password in a url",
    (d) => wrap(d.of(ALNUM, 40), (s) => `git clone https://oauth2:${s}@gitlab.example/g/p.git`),
  ],
  [
    "password in a url",
    (d) => wrap(d.of(HEX, 32), (s) => `SENTRY_DSN=https://abc:${s}@o1.ingest.sentry.io/42`),
  ],
  [
    "jdbc url",
    (d) =>
      wrap(d.of(ALNUM, 14), (s) => `jdbc:postgresql://db:5432/app?user=app&password=${s}&ssl=true`),
  ],
  [
    "connection string",
    (d) =>
      wrap(
        d.of(ALNUM, 14),
        (s) => `Server=tcp:sql.example,1433;User ID=sa;Password=${s};Encrypt=True;`,
      ),
  ],
  [
    "connection string",
    (d) =>
      wrap(
        `${d.of(BASE64, 86)}==`,
        (s) =>
          `DefaultEndpointsProtocol=https;AccountName=acme;AccountKey=${s};EndpointSuffix=core.windows.net`,
      ),
  ],
  [
    "connection string",
    (d) =>
      wrap(
        `${d.of(BASE64, 43)}=`,
        (s) =>
          `Endpoint=sb://acme.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=${s}`,
      ),
  ],
  [
    "azure sas",
    (d) =>
      wrap(
        `${d.of(ALNUM, 40)}%3D`,
        (s) => `https://acme.blob.core.windows.net/c/f.txt?sv=2022-11-02&sr=b&sp=r&sig=${s}`,
      ),
  ],
  [
    "azure sas",
    (d) =>
      wrap(
        `${d.of(ALNUM, 12)}%2B${d.of(ALNUM, 26)}%3D`,
        (s) => `?sp=racwdl&st=2024-05-01T00:00:00Z&sig=${s}&spr=https`,
      ),
  ],
  [
    "s3 presigned url",
    (d) =>
      wrap(
        d.of(HEX, 64),
        (s) => `https://b.s3.amazonaws.com/k?X-Amz-Expires=300&X-Amz-Signature=${s}`,
      ),
  ],
  [
    "oauth callback",
    (d) =>
      wrap(
        d.of(URL64, 44),
        (s) => `https://app.example/cb#access_token=${s}&token_type=bearer&expires_in=3600`,
      ),
  ],
  [
    "oauth body",
    (d) =>
      wrap(d.of(URL64, 44), (s) => `grant_type=refresh_token&refresh_token=${s}&client_id=web`),
  ],
  [
    "oauth body",
    (d) =>
      wrap(
        d.of(ALNUM, 36),
        (s) => `{"token_type":"Bearer","expires_in":3600,"access_token":"${s}"}`,
      ),
  ],
  [
    "slack webhook",
    (d) =>
      wrap(
        `T${d.of(UPPER + DIGITS, 8)}/B${d.of(UPPER + DIGITS, 8)}/${d.of(ALNUM, 24)}`,
        (s) => `https://hooks.slack.com/services/${s}`,
      ),
  ],
  [
    "discord webhook",
    (d) =>
      wrap(d.of(URL64, 68), (s) => `https://discord.com/api/webhooks/1${d.of(DIGITS, 17)}/${s}`),
  ],
  [
    "telegram url",
    (d) =>
      wrap(
        `6${d.of(DIGITS, 8)}:AA${d.of(URL64, 33)}`,
        (s) => `https://api.telegram.org/bot${s}/getUpdates`,
      ),
  ],
  ["rsa private key", (d) => wrap(pem(d, "RSA PRIVATE KEY", 12, "\n"), (s) => `key:\n${s}\nend`)],
  ["ec private key", (d) => wrap(pem(d, "EC PRIVATE KEY", 3, "\n"), (s) => s)],
  [
    "openssh private key",
    (d) => wrap(pem(d, "OPENSSH PRIVATE KEY", 7, "\n"), (s) => `cat ~/.ssh/id_ed25519\n${s}`),
  ],
  ["pgp private key", (d) => wrap(pem(d, "PGP PRIVATE KEY BLOCK", 9, "\n"), (s) => s)],
  [
    "service account",
    (d) =>
      wrap(
        pem(d, "PRIVATE KEY", 8, "\\n"),
        (s) => `{"type":"service_account","private_key":"${s}\\n","client_id":"1"}`,
      ),
  ],
  [
    "private key in base64",
    (d) =>
      wrap(
        Buffer.from(pem(d, "RSA PRIVATE KEY", 4, "\n")).toString("base64"),
        (s) => `    client-key-data: ${s}`,
      ),
  ],
  [
    "wireguard key",
    (d) =>
      wrap(`${d.of(BASE64, 43)}=`, (s) => `[Interface]\nPrivateKey = ${s}\nAddress = 10.0.0.2/32`),
  ],
  ["npmrc", (d) => wrap(uuid(d), (s) => `//registry.npmjs.org/:_authToken=${s}`)],
  [
    "npmrc",
    (d) =>
      wrap(
        Buffer.from(`ci:${d.of(ALNUM, 12)}`).toString("base64"),
        (s) => `//nexus.example/repository/npm/:_auth=${s}`,
      ),
  ],
  [
    "netrc",
    (d) => wrap(d.of(ALNUM, 20), (s) => `machine api.heroku.example login ann password ${s}`),
  ],
  [
    "docker config",
    (d) =>
      wrap(
        Buffer.from(`ci:${d.of(ALNUM, 18)}`).toString("base64"),
        (s) => `{"auths":{"ghcr.io":{"auth":"${s}"}}}`,
      ),
  ],
  ["sql", (d) => wrap(d.of(ALNUM, 14), (s) => `CREATE USER app WITH PASSWORD '${s}';`)],
  ["sql", () => wrap("correcthorse", (s) => `CREATE USER 'app'@'%' IDENTIFIED BY '${s}';`)],
  [
    "xml",
    (d) =>
      wrap(
        d.of(ALNUM, 14),
        (s) => `<server><username>ci</username><password>${s}</password></server>`,
      ),
  ],
  ["command", (d) => wrap(d.of(ALNUM, 12), (s) => `mysql -h db -u root -p${s} app < dump.sql`)],
  ["command", (d) => wrap(d.of(ALNUM, 12), (s) => `sshpass -p '${s}' ssh deploy@10.0.0.5`)],
  ["command", (d) => wrap(d.of(ALNUM, 12), (s) => `docker login -u ann -p ${s} ghcr.io`)],
  ["command", (d) => wrap(d.of(ALNUM, 16), (s) => `redis-cli -h cache --pass ${s} PING`)],
  ["command", (d) => wrap(d.of(ALNUM, 16), (s) => `PGPASSWORD=${s} psql -h db -U app`)],
  ["command", (d) => wrap(d.of(ALNUM, 30), (s) => `vercel deploy --token ${s} --prod`)],
  [
    "talk",
    (d) =>
      wrap(
        `Tr0ub4dor&${d.of(DIGITS, 2)}`,
        (s) => `Sure, my password is ${s}, please log in for me.`,
      ),
  ],
  [
    "talk",
    (d) => wrap(`${d.of(LETTERS, 5)}${d.of(DIGITS, 4)}!`, (s) => `The wifi password is "${s}"`),
  ],
  ["talk", (d) => wrap(d.of(ALNUM, 24), (s) => `my api key is ${s}`)],
  ["json field", () => wrap("hunter-two", (s) => `{"dbPassword": "${s}"}`)],
  ["json field", () => wrap("correct horse battery", (s) => `{"passphrase": "${s}"}`)],
  [
    "json field",
    (d) =>
      wrap(`${d.of(LETTERS, 6)}"${d.of(DIGITS, 4)}${d.of(LOWER, 6)}`, (s) =>
        JSON.stringify({ adminPassword: s }),
      ),
  ],
  [
    "card",
    (d) =>
      wrap(
        d.one(["4111111111111111", "5555555555554444", "6011111111111117"]),
        (s) => `pay with ${s} please`,
      ),
  ],
  ["card", () => wrap("4242 4242 4242 4242", (s) => `card: ${s}, exp 04/29`)],
  ["card", () => wrap("3782-822463-10005", (s) => `amex ${s}`)],
  ["card", () => wrap("378282246310005", (s) => `{"number":"${s}"}`)],
  ["e-mail address", (d) => wrap(`${d.of(LOWER, 7)}@mail.example.org`, (s) => `Reply-To: <${s}>`)],
  [
    "e-mail address",
    (d) =>
      wrap(`${d.of(LOWER, 7)}.${d.of(LOWER, 6)}+news@example.co.uk`, (s) => `user ${s} signed in`),
  ],
  ["e-mail address", (d) => wrap(`${d.of(LOWER, 7)}@example.com`, (s) => `Author: Ann <${s}>`)],
];

const wrap = (secret: string, write: (secret: string) => string): readonly [string, string] => [
  write(secret),
  secret,
];

/** As a value of its own, under a field: state of a session, or a result of a call. */
function inFields(draw: Draw): Positive[] {
  return kinds.map((kind, i) => {
    const secret = kind.make(draw);
    const field = [camel, snake, kebab][i % 3]?.(kind.name) ?? kind.name;
    return { kind: kind.kind, context: "field", text: secret, secret, field };
  });
}

export function positives(seed: number): readonly Positive[] {
  const draw = drawFrom(seed);
  return [
    ...kinds.flatMap((kind, i) => inContexts(kind, i, draw)),
    ...around.map(([kind, make]) => {
      const [text, secret] = make(draw);
      return { kind, context: "around", text, secret };
    }),
    ...inFields(draw),
    ...missed.map(([kind, make, write]) => {
      const secret = make(draw);
      return { kind, context: "reviewed", text: write(secret), secret };
    }),
  ];
}
