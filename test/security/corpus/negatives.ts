/** Texts of developers that hold no secret. Each line is one of them, and must stay as it is. */
import { ALNUM, BASE64, DIGITS, type Draw, drawFrom, HEX, LOWER, uuid } from "./draw.js";
import { harmless } from "./reviewed.js";

const code = String.raw`
const password = process.env.DB_PASSWORD;
const apiKey = process.env.API_KEY ?? "";
const token = await getToken(user.id);
const token = req.headers.authorization?.split(" ")[1];
if (!token) throw new Error("token is missing");
interface Login { username: string; password: string }
password: string;
readonly apiKey?: string;
accessToken: string | undefined,
password: z.string().min(8).max(128),
password: Joi.string().required(),
password: { type: String, required: true, select: false },
@Column() password: string;
const { password, ...rest } = user;
user.password = await bcrypt.hash(password, 12);
return { token: signToken(payload), user };
const isValid = await compare(password, user.passwordHash);
function login(username: string, password: string): Promise<Session> {
def connect(host: str, password: str, timeout: int = 30) -> Connection:
password = getpass.getpass("Password: ")
password = os.environ["DB_PASSWORD"]
api_key = os.getenv("OPENAI_API_KEY")
client = OpenAI(api_key=api_key)
client = Anthropic(api_key=settings.anthropic_api_key)
conn = psycopg2.connect(user=user, password=password, host=host)
self.token = token
this.secret = secret;
token = next(tokens)
token: Token = lexer.next_token()
type Token = { kind: TokenKind; start: number; end: number };
const tokens = tokenizer.encode(text);
max_tokens: 4096
token: 123456
tokens: 1834, cost: 0.0031
"max_tokens": 1024, "temperature": 0.7
"usage": {"prompt_tokens": 1532, "completion_tokens": 412, "total_tokens": 1944}
"token_count": 118234
tokenCount: 20480,
let secret = Secret::new(config.secret_key.clone());
let api_key = std::env::var("API_KEY")?;
String password = System.getenv("DB_PASSWORD");
private final String clientSecret;
var password = configuration["Database:Password"];
password := os.Getenv("DB_PASSWORD")
apiKey := flag.String("api-key", "", "key of the service")
$password = $_POST['password'];
$token = $this->tokenStorage->getToken();
'password' => env('DB_PASSWORD', ''),
'password' => bcrypt($request->password),
password: <%= ENV["DATABASE_PASSWORD"] %>
password: <your-password>
api_key: <YOUR_API_KEY>
API_KEY=your-api-key-here
API_KEY=<your-token>
TOKEN=xxxxxxxxxxxxxxxx
SECRET_KEY=changeme
password=********
password: "********"
OPENAI_API_KEY=sk-...
ANTHROPIC_API_KEY=sk-ant-xxxxxxxxxxxxxxxxxxxx
export GITHUB_TOKEN=$(gh auth token)
export API_KEY=$API_KEY
password: \${DB_PASSWORD}
token: \${{ secrets.GITHUB_TOKEN }}
GITHUB_TOKEN: \${{ github.token }}
password: {{ .Values.db.password }}
password: !vault |
password: "{{ vault_db_password }}"
password = var.db_password
password = data.aws_ssm_parameter.db.value
secret_key = local.secret_key
secretName: my-app-tls
secretKeyRef: { name: db, key: password }
kind: Secret
imagePullSecrets: [{ name: regcred }]
<input type="password" name="password" placeholder="Password" />
<label for="password">Password</label>
<input type="hidden" name="csrf_token" value="" />
"password": "Password"
"password": "Enter your password"
"password.required": "Password is required"
"passwordHint": "Use at least 8 characters"
forgotPassword: "Forgot your password?",
expect(screen.getByLabelText("Password")).toBeVisible();
describe("resetPassword", () => {
it("rejects a token that has expired", async () => {
throw new UnauthorizedError("Invalid token: signature mismatch");
Error: password authentication failed for user "app"
fatal: Authentication failed for 'https://github.com/acme/app.git/'
npm ERR! code ENEEDAUTH
headers: { Authorization: "Bearer " + token }
headers: { Authorization: \`Bearer \${token}\` },
headers = {"Authorization": f"Bearer {token}"}
curl -H "Authorization: Bearer $TOKEN" https://api.example/v1/items
curl -H "Authorization: Bearer <token>" https://api.example
Authorization: Bearer YOUR_ACCESS_TOKEN
Authorization: Basic <credentials>
curl -u "$USER:$PASS" https://x.example
curl -u user https://x.example
docker run -u 1000:1000 -v /data:/data app
Access-Control-Allow-Headers: Authorization, Content-Type
res.setHeader("Set-Cookie", serialize("sid", id, options));
Cookie: string
const cookie = request.headers.get("cookie");
app.use(cookieParser());
git clone git@github.com:acme/app.git
git@gitlab.com:group/project.git
git remote add origin git@bitbucket.org:team/repo.git
url = ssh://git@github.com/acme/app.git
scp build.tgz deploy@web1.example.com:/srv/app/
rsync -az ./dist/ ci@files.example.com:~/www/
ssh root@server.example.com
user@host:path/to/file
"node_modules/@types/node": { "version": "20.1.0" }
npm i @types/node@20.1.0 typescript@5.4.5
npm install react@18.3.1 react-dom@18.3.1
yarn add @scope/pkg@^1.2.3-beta.4
lodash@npm:4.17.21
pnpm dlx create-vite@latest my-app
import logo from "./foo@2x.png";
background-image: url("/img/icon@3x.png");
AppIcon-60@2x.png
systemctl status user@1000.service
getty@tty1.service loaded active running
docker pull alpine@sha256:c5b1261d6d3e43071626931fc004f70149baeba2c8ec672bd4f27761f8e1ad6b
follow me at @ann@hachyderm.io
@media (min-width: 640px) { .a { color: red } }
@app.route("/login", methods=["POST"])
@pytest.fixture(scope="session")
x = a @ b.T
const matrix = left@right
key: "primary", value: 42
primary_key: id
foreign_key: user_id
key={item.id}
sort_key = "created_at"
cacheKey: "user:42:profile"
partitionKey: "tenant#acme"
const key = event.key === "Enter";
publicKey: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8xZ7p9w3n5q8m2l4k6j0h1g3f5d7s9a2p4o6i8u0y2 ann"
-----BEGIN CERTIFICATE-----
-----BEGIN PUBLIC KEY-----
keyboard: { layout: "us" }
hotkey: "ctrl+shift+p"
idempotencyKey: "order-1234-retry"
idempotency_key=7f9c2ba4
PWD=/home/ann/project
OLDPWD=/tmp/build-1234
pwd: /srv/app1/releases/20240501
pass: 128, fail: 0, skipped: 3
tests 42 pass 42 fail 0
bypass: true
compass: "north-northwest"
passthrough: enabled
authored: 2024-05-01
author: Ann Example
auth: required
auth: { type: "oauth2", scopes: ["read"] }
authorization: required
credentials: "include"
credentials: "same-origin",
fetch(url, { credentials: "include" });
grant_type=client_credentials
token_type: bearer
token_endpoint: https://id.example/oauth2/token
tokenUrl: "https://id.example/oauth/v2/token"
secret: true
secret: false
hasPassword: true
passwordless: true
password_reset_sent_at: 2024-05-01T10:00:00Z
passwordExpiresInDays: 90
password_min_length=12
PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
CREATE TABLE users (id uuid PRIMARY KEY, password text NOT NULL);
ALTER TABLE users ADD COLUMN password_hash varchar(255);
SELECT id, token FROM sessions WHERE token = $1
UPDATE users SET password = :password WHERE id = :id
INSERT INTO tokens (token, user_id) VALUES (?, ?)
--password-stdin
echo "$TOKEN" | docker login ghcr.io -u ann --password-stdin
aws s3 cp s3://bucket/key1 ./key1
kubectl create secret generic db --from-literal=password=$DB_PASSWORD
gh secret set NPM_TOKEN < token.txt
openssl rand -hex 32
ssh-keygen -t ed25519 -f ~/.ssh/id_ed25519
mysql -u root -p app
psql -h localhost -p 5432 -U app
mkdir -p src/components/Button2
tar -xzf node-v20.11.1-linux-x64.tar.gz
`;

const prose = `
The password must have at least 12 characters.
Your password: keep it secret.
password: correct horse
Choose a strong password; never reuse it.
Secrets: how to rotate them without downtime
Token: a unit of text that a model reads.
A token is about four characters of English.
Use a bearer token in the Authorization header.
the bearer certificates of 1987
Bearer authentication is described in RFC 6750
Basic authentication sends credentials with each request.
The API key is read from the environment.
My password is not working, can you help?
I forgot my password and the reset link is expired.
The password is hashed with argon2id before it is stored.
The secret is to keep the pan hot.
The token is base64-encoded, then signed with HS256.
Set API_KEY in your shell, then run npm start.
The answer has 4096 tokens at most, and costs $0.01.
We met at 10:30, room B2, and talked about v2.3.1.
Call me at +1 (555) 010-9999 after 17:00.
ISBN 978-3-16-148410-0 is the second edition.
ISBN-10: 0-306-40615-2
IMEI: 490154203237518
The IMEI of the phone is 352099001761481.
EAN 4006381333931 is out of stock
order number 4539578763621486 was shipped
Order #6011000990139424 is late
invoice 5105105105105100 is paid
tracking number 9400111899223197428490
"id": 4556737586899855,
user_id=4916338506082832
snowflake 1146789012345678901
channel 821764352917504050
pi is 3.1415926535897932384626
score: 0.4539578763621486
loss=2.5431098765432101 step=1200
lat: 48.8583736, lon: 2.2944813
1700000000000
1714557751123456
1714557751123456789
2023-11-15 12:34:56
20231115123456789
4111111111111112
0000 0000 0000 0000
1234 5678 9012 3456
10 20 30 40 50 60 70 80 90 100
4 8 15 16 23 42 108 4815 1623
5 1000 2000 3000 4000
IBAN GB29 NWBK 6016 1331 9268 19
MAC 00:1B:44:11:3A:B7
IPv6 2001:0db8:85a3:0000:0000:8a2e:0370:7334
192.168.100.254:8443
see https://example.com:8443/docs/@latest/api?x=1#top
http://host:8080/a@b
https://medium.com/@ann/how-to-write-1234567890ab
https://www.npmjs.com/package/@scope/name/v/1.2.3
https://docs.example.com/api-key/create?lang=en
https://github.com/acme/app/commit/3f2c1e9b7a6d5c4b3a2f1e0d9c8b7a6f5e4d3c2b
https://x.example/login?next=/settings&lang=en
s3://bucket/path/to/object-2024-05-01.parquet
file:///home/ann/notes/2024/token-ideas.md
risk-assessment-methodology-of-2023-and-later
sk-learn 1.4 is out
task-2024-05-01-review-of-the-quarterly-plan
desk-lamp-with-three-brightness-levels-2024
eyJ is how they begin
AKIA is a prefix
npm_config_registry=https://registry.npmjs.org/
npm_lifecycle_event=test
hf_hub_download("bert-base-uncased", "config.json")
dapi is short for the data API
key-value stores compared in 2024
the sl.exe file is a joke
pat is a name, and so is SG.
re_render the page with r8_format
glob-pattern and gl-matrix 3.4.3
sha512 and sha256 are digests
`;

const stacks = `
    at Object.<anonymous> (/app/src/auth/token.ts:42:17)
    at async Promise.all (index 0)
    at TokenService.verify (node_modules/@nestjs/jwt/dist/jwt.service.js:45:12)
  File "/usr/lib/python3.11/site-packages/requests/auth.py", line 112, in __call__
Caused by: java.lang.IllegalStateException: password encoder is not set
thread 'main' panicked at src/auth.rs:118:9: token expired
panic: runtime error: invalid memory address [recovered]
goroutine 17 [running]: main.(*Server).authenticate(0xc0000b4000)
0x00007ffee4b3c8a0 in ssl3_get_key_exchange ()
diff --git a/src/token.ts b/src/token.ts
index 3f2c1e9..7a6d5c4 100644
@@ -12,7 +12,9 @@ export function readToken(header: string) {
-  const token = header.slice(7);
+  const token = header.startsWith("Bearer ") ? header.slice(7) : undefined;
+++ b/config/secrets.example.yml
commit 9fceb02d0ae598e95dc970b74767f19372d61af8
Merge: 1a2b3c4 5d6e7f8
refs/tags/v1.2.3^{}
drwxr-xr-x  5 ann staff 160 May  1 10:22 secrets
-rw-------  1 ann staff 2602 May  1 10:22 id_rsa
ETag: "33a64df551425fcc55e4d42a148795d9f25f89d4"
X-Request-Id: 7b0a2f1e-9c1d-4a55-8a06-2b6f8d1f0c9e
cf-ray: 87c1d2e3f4a5b6c7-FRA
traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
If-None-Match: W/"5e-18f3c2a"
x-ratelimit-remaining-tokens: 149984
x-ratelimit-reset-tokens: 6m0s
content-security-policy: script-src 'nonce-r4nd0mN0nce' 'self'
INFO token refreshed in 132 ms
WARN secret "db" was rotated 91 days ago
DEBUG key=user:42 hit=true ttl=300
[auth] token accepted for session 42
level=info msg="password changed" user=42
GET /api/v1/tokens/42 200 13ms
POST /oauth/token 401 5ms
POST /users/password/reset HTTP/1.1
audit: password policy updated by admin
listening on http://127.0.0.1:3000
Compiled successfully in 1832 ms
added 412 packages, and audited 413 packages in 9s
chunk-vendors.4f3a2b1c.js 512.33 KiB
main.8f14e45fceea167a5a36dedd4bea2543.css
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
sourceMappingURL=app.js.map
<a href="/reset-password?step=2">Reset password</a>
<svg viewBox="0 0 24 24"><path d="M12 2L2 7l10 5 10-5-10-5z"/></svg>
.password-field__input--2xQ9k { color: #a1b2c3; }
{"error":{"type":"authentication_error","message":"invalid x-api-key"}}
{"id":"msg_01XFDUDYJgAACzvnptvVoYEL","type":"message","role":"assistant"}
{"id":"chatcmpl-9abcdEFGHijklMNOPqrstUVWXyz12","object":"chat.completion"}
{"type":"tool_use","id":"toolu_01A09q90qw90lq917835lq9","name":"get_weather"}
{"id":"call_abc123DEF456ghi789JKL012","type":"function"}
{"customer":"cus_NffrFeUfNV2Hib","invoice":"in_1MtHbELkdIwHu7ixl4OzzPMv"}
{"id":"req_011CSHoEeqs5C35K2UUqR7Fy","price":"price_1MoBy5LkdIwHu7ixZhnattbh"}
{"run":"run_5xq8mPz2","thread":"thread_abc123DEF456ghi789JKL012"}
arn:aws:iam::123456789012:role/deploy
projects/acme-prod-1234/secrets/db-password/versions/3
vpc-0a1b2c3d4e5f67890 subnet-0f9e8d7c6b5a43210
ami-0abcdef1234567890 i-0123456789abcdef0
`;

const lines = (text: string): string[] =>
  text
    .split("\n")
    .filter((line) => line.trim() !== "")
    // Written with a backslash only for this file's own sake.
    .map((line) => line.replaceAll("\\$", "$").replaceAll("\\`", "`"));

/** Ids, digests and numbers, in the places where they stand. */
const made: readonly ((draw: Draw, n: number) => string)[] = [
  (d) => `"id": "${uuid(d)}",`,
  (d) => `commit ${d.of(HEX, 40)}`,
  (d) => `${d.of(HEX, 7)} fix: parse tokens at the end of a line`,
  (d) => `      "integrity": "sha512-${d.of(BASE64, 86)}==",`,
  (d) =>
    `      "resolved": "https://registry.npmjs.org/pkg-${d.of(LOWER, 6)}/-/pkg-1.${d.number(30)}.${d.number(9)}.tgz",`,
  (d) => `    resolution: {integrity: sha512-${d.of(BASE64, 86)}==}`,
  (d) => `checksum = "${d.of(HEX, 64)}"`,
  (d) => `    --hash=sha256:${d.of(HEX, 64)}`,
  (d) => `golang.org/x/net v0.${d.number(40)}.0 h1:${d.of(BASE64, 43)}=`,
  (d) => `<img src="data:image/png;base64,iVBORw0KGgo${d.of(BASE64, 120)}">`,
  (d) => `order_id: ${d.of(DIGITS, 10)}`,
  (d, n) =>
    `2024-05-${String(1 + (n % 28)).padStart(2, "0")}T10:22:31.${d.of(DIGITS, 6)}Z INFO took ${d.number(900)} ms`,
  (d) =>
    `{"ts":17145577${d.of(DIGITS, 5)},"level":30,"pid":${d.number(9_999)},"reqId":"${uuid(d)}","msg":"done"}`,
  (d) => `trace_id=${d.of(HEX, 32)} span_id=${d.of(HEX, 16)}`,
  (d) => `layer sha256:${d.of(HEX, 64)} pulled`,
  (d) => `/assets/index-${d.of(ALNUM, 8)}.js`,
  (d) =>
    `embedding: [${d.number(10)}.${d.of(DIGITS, 16)}, -0.${d.of(DIGITS, 17)}, 0.${d.of(DIGITS, 16)}]`,
  (d) => `const id = "${d.of(ALNUM, 21)}";`,
  (d) => `session ${d.of(LOWER + DIGITS, 16)}-${d.number(99)} resumed`,
  (d) => `IMEI 35${d.of(DIGITS, 13)}`,
  (d) =>
    `row ${d.number(9_999)} ${d.number(9_999)} ${d.number(9_999)} ${d.number(9_999)} ${d.number(9_999)}`,
  (d) => `{"id":"resp_${d.of(HEX, 48)}","object":"response"}`,
  (d) => `user@${d.number(10)}.${d.number(10)}.${d.number(10)}`,
  (d) =>
    `prompt_tokens=${d.number(9_000)} completion_tokens=${d.number(900)} total=${d.number(10_000)}`,
];

export function negatives(seed: number): readonly string[] {
  const draw = drawFrom(seed);
  const drawn = Array.from({ length: 14 }, (_, n) => made.map((make) => make(draw, n))).flat();
  return [...lines(code), ...lines(prose), ...lines(stacks), ...lines(harmless), ...drawn];
}
