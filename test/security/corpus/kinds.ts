/**
 * Kinds of secrets, each in the shape that its vendor documents. The names are those under which
 * people keep them.
 */
import {
  ALNUM,
  BASE32,
  BASE64,
  DIGITS,
  type Draw,
  HEX,
  LETTERS,
  LOWER,
  UPPER,
  URL64,
  uuid,
} from "./draw.js";

export interface Kind {
  readonly kind: string;
  /** The name of the setting that holds it. */
  readonly name: string;
  readonly make: (draw: Draw) => string;
  /**
   * True where the text alone cannot be told from an id or a digest: only its name says that it is
   * a secret.
   */
  readonly isNamed?: true;
}

/** Put together at run time. */
const p = (...parts: readonly string[]): string => parts.join("");

const known = (kind: string, name: string, make: (draw: Draw) => string): Kind => ({
  kind,
  name,
  make,
});
const named = (kind: string, name: string, make: (draw: Draw) => string): Kind => ({
  kind,
  name,
  make,
  isNamed: true,
});

const base64url = (value: object): string =>
  Buffer.from(JSON.stringify(value)).toString("base64url");

export const kinds: readonly Kind[] = [
  // ---- clouds
  known("aws access key id", "AWS_ACCESS_KEY_ID", (d) => p("AK", "IA", d.of(BASE32, 16))),
  known("aws temporary key id", "AWS_ACCESS_KEY_ID", (d) => p("AS", "IA", d.of(BASE32, 16))),
  named("aws secret access key", "AWS_SECRET_ACCESS_KEY", (d) => d.of(BASE64, 40)),
  named("aws session token", "AWS_SESSION_TOKEN", (d) => `${d.of(BASE64, 300)}==`),
  known("google api key", "GOOGLE_API_KEY", (d) => p("AI", "za", d.of(URL64, 35))),
  known("google oauth access token", "GOOGLE_ACCESS_TOKEN", (d) =>
    p("ya", "29.", d.of(URL64, 120)),
  ),
  known("google oauth client secret", "GOOGLE_CLIENT_SECRET", (d) =>
    p("GOC", "SPX-", d.of(URL64, 28)),
  ),
  known("google refresh token", "GOOGLE_REFRESH_TOKEN", (d) => p("1/", "/0", d.of(URL64, 60))),
  named("azure storage account key", "AZURE_STORAGE_ACCOUNT_KEY", (d) => `${d.of(BASE64, 86)}==`),
  known("azure client secret", "AZURE_CLIENT_SECRET", (d) =>
    p(d.of(ALNUM, 3), "8", "Q~", d.of(`${ALNUM}_.~-`, 34)),
  ),
  named("azure openai key", "AZURE_OPENAI_API_KEY", (d) => d.of(HEX, 32)),
  known("digitalocean token", "DIGITALOCEAN_TOKEN", (d) => p("dop", "_v1_", d.of(HEX, 64))),
  known("digitalocean oauth token", "DO_OAUTH_TOKEN", (d) => p("doo", "_v1_", d.of(HEX, 64))),
  known("alibaba access key id", "ALIBABA_ACCESS_KEY_ID", (d) => p("LT", "AI", d.of(ALNUM, 20))),
  named("cloudflare api token", "CLOUDFLARE_API_TOKEN", (d) => d.of(URL64, 40)),
  known("heroku api key", "HEROKU_API_KEY", (d) => p("HR", "KU-", uuid(d))),
  known("netlify token", "NETLIFY_AUTH_TOKEN", (d) => p("nf", "p_", d.of(ALNUM, 36))),
  known("fly.io token", "FLY_API_TOKEN", (d) => p("fm", "2_", d.of(BASE64, 120))),
  known("tailscale auth key", "TAILSCALE_AUTH_KEY", (d) =>
    p("tskey", "-auth-", d.of(ALNUM, 17), "-", d.of(ALNUM, 32)),
  ),
  // ---- models
  known("anthropic key", "ANTHROPIC_API_KEY", (d) =>
    p("sk-", "ant-", "api03-", d.of(URL64, 93), "AA"),
  ),
  known("openai key", "OPENAI_API_KEY", (d) =>
    p("sk", "-", d.of(ALNUM, 20), "T3Blbk", "FJ", d.of(ALNUM, 20)),
  ),
  known("openai project key", "OPENAI_API_KEY", (d) =>
    p("sk-", "proj-", d.of(URL64, 74), "T3Blbk", "FJ", d.of(URL64, 73)),
  ),
  known("openrouter key", "OPENROUTER_API_KEY", (d) => p("sk-", "or-v1-", d.of(HEX, 64))),
  known("deepseek key", "DEEPSEEK_API_KEY", (d) => p("sk", "-", d.of(HEX, 32))),
  known("hugging face token", "HF_TOKEN", (d) => p("h", "f_", d.of(LETTERS, 34))),
  known("groq key", "GROQ_API_KEY", (d) => p("gs", "k_", d.of(ALNUM, 52))),
  known("xai key", "XAI_API_KEY", (d) => p("xa", "i-", d.of(ALNUM, 80))),
  known("perplexity key", "PERPLEXITY_API_KEY", (d) => p("pp", "lx-", d.of(ALNUM, 48))),
  known("replicate token", "REPLICATE_API_TOKEN", (d) => p("r", "8_", d.of(ALNUM, 37))),
  known("nvidia key", "NVIDIA_API_KEY", (d) => p("nv", "api-", d.of(URL64, 64))),
  known("langsmith key", "LANGSMITH_API_KEY", (d) =>
    p("lsv2", "_pt_", d.of(HEX, 32), "_", d.of(HEX, 10)),
  ),
  known("langfuse secret key", "LANGFUSE_SECRET_KEY", (d) => p("sk", "-lf-", uuid(d))),
  known("tavily key", "TAVILY_API_KEY", (d) => p("tv", "ly-", d.of(ALNUM, 32))),
  known("pinecone key", "PINECONE_API_KEY", (d) =>
    p("pc", "sk_", d.of(ALNUM, 6), "_", d.of(ALNUM, 63)),
  ),
  named("cohere key", "COHERE_API_KEY", (d) => d.of(ALNUM, 40)),
  named("mistral key", "MISTRAL_API_KEY", (d) => d.of(ALNUM, 32)),
  // ---- code
  known("github token", "GITHUB_TOKEN", (d) => p("gh", "p_", d.of(ALNUM, 36))),
  known("github app token", "GH_TOKEN", (d) => p("gh", "s_", d.of(ALNUM, 36))),
  known("github fine-grained token", "GITHUB_PAT", (d) =>
    p("github", "_pat_", d.of(ALNUM, 22), "_", d.of(ALNUM, 59)),
  ),
  known("gitlab token", "GITLAB_TOKEN", (d) => p("gl", "pat-", d.of(URL64, 20))),
  known("gitlab routable token", "GITLAB_TOKEN", (d) =>
    p("gl", "pat-", d.of(URL64, 27), ".0", DIGITS[1] as string, ".", d.of(LOWER + DIGITS, 9)),
  ),
  known("gitlab runner token", "CI_RUNNER_TOKEN", (d) => p("gl", "rt-", d.of(URL64, 20))),
  known("gitlab deploy token", "CI_DEPLOY_TOKEN", (d) => p("gl", "dt-", d.of(URL64, 20))),
  known("npm token", "NPM_TOKEN", (d) => p("np", "m_", d.of(ALNUM, 36))),
  known("pypi token", "PYPI_TOKEN", (d) => p("py", "pi-", "AgEIcHlwaS5vcmc", d.of(URL64, 150))),
  known("rubygems key", "GEM_HOST_API_KEY", (d) => p("ruby", "gems_", d.of(HEX, 48))),
  known("crates.io token", "CARGO_REGISTRY_TOKEN", (d) => p("ci", "o", d.of(ALNUM, 32))),
  known("docker hub token", "DOCKERHUB_TOKEN", (d) => p("dckr", "_pat_", d.of(URL64, 27))),
  known("atlassian token", "JIRA_API_TOKEN", (d) =>
    p("ATA", "TT3x", d.of(URL64, 180), "=", d.of("0123456789ABCDEF", 8)),
  ),
  known("bitbucket app password", "BITBUCKET_APP_PASSWORD", (d) => p("AT", "BB", d.of(ALNUM, 32))),
  known("sonarqube token", "SONAR_TOKEN", (d) => p("sq", "p_", d.of(HEX, 40))),
  known("buildkite token", "BUILDKITE_TOKEN", (d) => p("bk", "ua_", d.of(HEX, 40))),
  named("circleci token", "CIRCLECI_TOKEN", (d) => d.of(HEX, 40)),
  named("azure devops token", "AZURE_DEVOPS_EXT_PAT_TOKEN", (d) => d.of(LOWER + DIGITS, 52)),
  // ---- data and operations
  known("databricks token", "DATABRICKS_TOKEN", (d) => p("da", "pi", d.of(HEX, 32))),
  known("vault token", "VAULT_TOKEN", (d) => p("hv", "s.", d.of(URL64, 95))),
  known("vault batch token", "VAULT_TOKEN", (d) => p("hv", "b.", d.of(URL64, 140))),
  known("terraform cloud token", "TFE_TOKEN", (d) =>
    p(d.of(ALNUM, 14), ".atlas", "v1.", d.of(URL64, 67)),
  ),
  known("pulumi token", "PULUMI_ACCESS_TOKEN", (d) => p("pu", "l-", d.of(HEX, 40))),
  known("doppler token", "DOPPLER_TOKEN", (d) => p("dp.", "pt.", d.of(ALNUM, 43))),
  known("planetscale token", "PLANETSCALE_TOKEN", (d) => p("pscale", "_tkn_", d.of(URL64, 43))),
  known("supabase token", "SUPABASE_ACCESS_TOKEN", (d) => p("sb", "p_", d.of(HEX, 40))),
  known("neon key", "NEON_API_KEY", (d) => p("na", "pi_", d.of(LOWER + DIGITS, 64))),
  known("grafana service account token", "GRAFANA_TOKEN", (d) =>
    p("gl", "sa_", d.of(ALNUM, 32), "_", d.of(HEX, 8)),
  ),
  known("new relic key", "NEW_RELIC_API_KEY", (d) => p("NR", "AK-", d.of(UPPER + DIGITS, 27))),
  known("sentry user token", "SENTRY_AUTH_TOKEN", (d) => p("sntr", "yu_", d.of(HEX, 64))),
  named("datadog api key", "DD_API_KEY", (d) => d.of(HEX, 32)),
  known("dynatrace token", "DT_API_TOKEN", (d) =>
    p("dt0", "c01.", d.of(UPPER + DIGITS, 24), ".", d.of(UPPER + DIGITS, 64)),
  ),
  known("age secret key", "SOPS_AGE_KEY", (d) =>
    p("AGE-SECRET", "-KEY-1", d.of("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58)),
  ),
  // ---- messages, shops, offices
  known("slack bot token", "SLACK_BOT_TOKEN", (d) =>
    p("xo", "xb-", d.of(DIGITS, 12), "-", d.of(DIGITS, 13), "-", d.of(ALNUM, 24)),
  ),
  known("slack app token", "SLACK_APP_TOKEN", (d) =>
    p("xa", "pp-1-A", d.of(UPPER + DIGITS, 10), "-", d.of(DIGITS, 13), "-", d.of(HEX, 64)),
  ),
  known("discord bot token", "DISCORD_TOKEN", (d) =>
    p("MT", d.of(ALNUM, 24), ".G", d.of(URL64, 5), ".", d.of(URL64, 38)),
  ),
  known("telegram bot token", "TELEGRAM_BOT_TOKEN", (d) =>
    p("7", d.of(DIGITS, 9), ":A", "A", d.of(URL64, 33)),
  ),
  known("sendgrid key", "SENDGRID_API_KEY", (d) =>
    p("S", "G.", d.of(URL64, 22), ".", d.of(URL64, 43)),
  ),
  known("twilio api key", "TWILIO_API_KEY", (d) => p("S", "K", d.of(HEX, 32))),
  named("twilio auth token", "TWILIO_AUTH_TOKEN", (d) => d.of(HEX, 32)),
  known("mailgun key", "MAILGUN_API_KEY", (d) => p("ke", "y-", d.of(HEX, 32))),
  known("mailchimp key", "MAILCHIMP_API_KEY", (d) => p(d.of(HEX, 32), "-us", d.of("123456789", 1))),
  known("brevo key", "BREVO_API_KEY", (d) =>
    p("xkey", "sib-", d.of(HEX, 64), "-", d.of(ALNUM, 16)),
  ),
  known("resend key", "RESEND_API_KEY", (d) => p("r", "e_", d.of(ALNUM, 8), "_", d.of(ALNUM, 24))),
  known("stripe key", "STRIPE_SECRET_KEY", (d) => p("sk", "_live_", d.of(ALNUM, 99))),
  known("stripe webhook secret", "STRIPE_WEBHOOK_SECRET", (d) => p("wh", "sec_", d.of(ALNUM, 32))),
  known("square token", "SQUARE_ACCESS_TOKEN", (d) => p("EA", "AA", d.of(URL64, 60))),
  known("shopify token", "SHOPIFY_ACCESS_TOKEN", (d) => p("shp", "at_", d.of(HEX, 32))),
  known("braintree token", "BRAINTREE_ACCESS_TOKEN", (d) =>
    p("access_token$", "production$", d.of(LOWER + DIGITS, 16), "$", d.of(HEX, 32)),
  ),
  known("linear key", "LINEAR_API_KEY", (d) => p("lin", "_api_", d.of(ALNUM, 40))),
  known("notion token", "NOTION_TOKEN", (d) => p("nt", "n_", d.of(ALNUM, 46))),
  known("figma token", "FIGMA_TOKEN", (d) => p("fi", "gd_", d.of(URL64, 40))),
  known("airtable token", "AIRTABLE_TOKEN", (d) =>
    p("pa", "t", d.of(ALNUM, 14), ".", d.of(HEX, 64)),
  ),
  known("postman key", "POSTMAN_API_KEY", (d) => p("PM", "AK-", d.of(HEX, 24), "-", d.of(HEX, 34))),
  known("hubspot token", "HUBSPOT_TOKEN", (d) => p("pat", "-na1-", uuid(d))),
  known("contentful token", "CONTENTFUL_TOKEN", (d) => p("CF", "PAT-", d.of(URL64, 43))),
  known("posthog key", "POSTHOG_PERSONAL_API_KEY", (d) => p("ph", "x_", d.of(ALNUM, 43))),
  known("dropbox token", "DROPBOX_TOKEN", (d) => p("s", "l.", d.of(URL64, 136))),
  known("facebook token", "FB_PAGE_TOKEN", (d) => p("EA", "AC", d.of(ALNUM, 120))),
  named("okta token", "OKTA_API_TOKEN", (d) => `00${d.of(URL64, 40)}`),
  known("jwt", "SESSION_JWT", (d) =>
    [
      base64url({ alg: "HS256", typ: "JWT" }),
      base64url({ sub: d.of(DIGITS, 10), iat: 1_700_000_000 }),
      d.of(URL64, 43),
    ].join("."),
  ),
  // ---- passwords
  named(
    "password of letters and digits",
    "DB_PASSWORD",
    (d) => `${d.of(LETTERS, 6)}${d.of(DIGITS, 3)}`,
  ),
  named(
    "password with signs",
    "SMTP_PASSWORD",
    (d) => `${d.of(ALNUM, 5)}&${d.of(DIGITS, 1)}${d.of("!#%*+,;@^~", 2)}${d.of(ALNUM, 6)}`,
  ),
  named(
    "password with brackets",
    "ADMIN_PASSWORD",
    (d) => `${d.of(ALNUM, 6)}(${d.of(ALNUM, 4)})${d.of(ALNUM, 4)}`,
  ),
  named(
    "password of words",
    "ROOT_PASSWORD",
    (d) => `${d.one(["hunter", "dragon", "monkey"])}-${d.one(["two", "seven", "river"])}`,
  ),
  named("password that is one word", "MYSQL_PASSWD", (d) =>
    d.one(["correcthorse", "sunflowerfield", "letmeinnow", "batterystaple"]),
  ),
  named("password of digits", "WIFI_PASSWORD", (d) => d.of(DIGITS, 10)),
  named("hex secret", "SESSION_SECRET", (d) => d.of(HEX, 64)),
  named("base64 secret", "JWT_SIGNING_KEY", (d) => `${d.of(BASE64, 43)}=`),
  named("token that is a uuid", "POSTMARK_SERVER_TOKEN", (d) => uuid(d)),
];
