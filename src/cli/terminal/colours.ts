/** Colours, where they are wanted: on a terminal that knows them, or where somebody insists. */

export interface Paint {
  readonly bold: (text: string) => string;
  readonly dim: (text: string) => string;
  readonly red: (text: string) => string;
  readonly green: (text: string) => string;
  readonly yellow: (text: string) => string;
  readonly blue: (text: string) => string;
  readonly magenta: (text: string) => string;
  readonly cyan: (text: string) => string;
}

const CODES = {
  bold: 1,
  dim: 2,
  red: 31,
  green: 32,
  yellow: 33,
  blue: 34,
  magenta: 35,
  cyan: 36,
} as const;

export function isColourful(stream: { readonly isTTY?: boolean }, env: NodeJS.ProcessEnv): boolean {
  const forced = env["FORCE_COLOR"];
  if (forced !== undefined && forced !== "") return forced !== "0" && forced !== "false";
  if (env["NO_COLOR"] !== undefined && env["NO_COLOR"] !== "") return false;
  return stream.isTTY === true && env["TERM"] !== "dumb";
}

export const paint = (colourful: boolean): Paint =>
  Object.fromEntries(
    Object.entries(CODES).map(([name, code]) => [
      name,
      (text: string) =>
        colourful && text !== "" ? `\u001b[${code}m${text}\u001b[${code < 3 ? 22 : 39}m` : text,
    ]),
  ) as unknown as Paint;
