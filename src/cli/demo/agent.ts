/**
 * The demo's agent: looks an order up, refunds it, writes to the customer. Its model is a script.
 */
import { agent, type ModelReply, type ModelRequest } from "../../index.js";
import type { World } from "./world.js";

/** Where the process can be made to die. */
export type Point =
  | "before the bank was asked"
  | "after the bank paid, before it answered"
  | "after the bank answered, before that was recorded"
  | "after the mail was sent, before that was known";

export const POINTS: readonly Point[] = [
  "before the bank was asked",
  "after the bank paid, before it answered",
  "after the bank answered, before that was recorded",
  "after the mail was sent, before that was known",
];

export interface Hooks {
  /** Called at a point; at the one where it is to die it does not return. */
  readonly at: (point: Point, order: number) => void;
  readonly says: (text: string) => void;
}

export const ORDERS: readonly number[] = [42, 43];

export function supportAgent(world: World, { at, says }: Hooks) {
  return agent({
    name: "support",
    system: "You help people with their orders.",
    model: async (request) => script(request, world),
    tools: {
      lookup: {
        mode: "repeatable",
        run: ({ order }: { order: number }) => {
          says(`looks up order ${order}`);
          return { order, item: "teapot", cents: 1_800, arrived: "broken" };
        },
      },
      refund: {
        mode: "keyed",
        key: ({ order }: { order: number }) => `refund:${order}`,
        run: ({ order }: { order: number }, { key, attempt }) => {
          at("before the bank was asked", order);
          says(
            attempt === 1
              ? `asks the bank to refund order ${order}`
              : `asks the bank to refund order ${order}, under the same key as before`,
          );
          const receipt = world.refund(order, key);
          at("after the bank paid, before it answered", order);
          return receipt;
        },
        // Called between the answer and its being recorded: a good place to die.
        toModel: (receipt: { receipt: string }) => {
          at(
            "after the bank answered, before that was recorded",
            Number(receipt.receipt.split("-")[1]),
          );
          return `refunded, receipt ${receipt.receipt}`;
        },
      },
      email: {
        mode: "once",
        run: ({ order }: { order: number }, { key }) => {
          says(`writes to the customer of order ${order}`);
          const sent = world.send(order, key);
          at("after the mail was sent, before that was known", order);
          return sent;
        },
        check: ({ key }) => {
          const sent = world.hasSent(key);
          says(`asks the mail server whether it was sent: ${sent ? "it was" : "it was not"}`);
          return sent ? { output: { sent: true } } : { retry: true };
        },
      },
    },
  });
}

/** What the model says follows from the transcript alone, as with any model. */
function script({ messages, key }: ModelRequest, world: World): ModelReply {
  const order = Number(/\d+/.exec(String(messages[0]?.content))?.[0] ?? 0);
  const said = messages.filter(({ role }) => role === "assistant").length;
  world.note({ who: "model", did: `reply ${said + 1}`, order, key });
  const call = (name: string) => ({ callId: `call-${said + 1}`, name, input: { order } });
  const usage = { inputTokens: 200 + 80 * said, outputTokens: 40 };
  if (said === 0) return { content: "I look it up.", toolCalls: [call("lookup")], usage };
  if (said === 1)
    return { content: "It arrived broken, so I refund it.", toolCalls: [call("refund")], usage };
  if (said === 2) return { content: "I tell the customer.", toolCalls: [call("email")], usage };
  return { content: `Order ${order} is refunded, and the customer knows.`, usage };
}
