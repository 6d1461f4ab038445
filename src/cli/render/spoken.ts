/** What a message says, without the library: the command line is to start without it. */
import type { Message, Part } from "../../index.js";

type Said = Pick<Message, "content">;

export const partsOf = ({ content }: Said): readonly Part[] =>
  typeof content === "string" ? [{ type: "text", text: content }] : content;

export const textOf = (message: Said): string =>
  partsOf(message)
    .flatMap((part) => (part.type === "text" ? [part.text] : []))
    .join("\n");

/** Its calls and results, and whatever else is no text, in few words. */
export const othersOf = (message: Said): readonly string[] =>
  partsOf(message).flatMap((part) => {
    switch (part.type) {
      case "text":
        return [];
      case "tool-call":
        return [`→ ${part.name} ${JSON.stringify(part.input)}`];
      case "tool-result":
        return [
          `← ${part.outcome === "ok" ? "" : `${part.outcome} `}${typeof part.output === "string" ? part.output : JSON.stringify(part.output)}`,
        ];
      default:
        return [`[${part.type}]`];
    }
  });
