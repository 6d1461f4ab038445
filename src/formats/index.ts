/** Transcripts in the message formats of providers, there and back without loss. */

export type { TranscriptMessage } from "./plain.js";
export type { Remainder } from "./remainder.js";
export {
  type Format,
  fromFormat,
  type GivenTranscript,
  type Transcript,
  toFormat,
} from "./transcript.js";
