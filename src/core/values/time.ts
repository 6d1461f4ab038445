/** Times as callers see them. */

let lastSecond = Number.NaN;
let lastText = "";

/**
 * Times close together share all but their milliseconds: making a Date of each was a tenth of a
 * load.
 */
export function isoTime(at: number): string {
  const second = Math.floor(at / 1000);
  if (second !== lastSecond) {
    lastText = new Date(second * 1000).toISOString().slice(0, -4);
    lastSecond = second;
  }
  const ms = at - second * 1000;
  return `${lastText}${ms < 10 ? "00" : ms < 100 ? "0" : ""}${ms}Z`;
}
