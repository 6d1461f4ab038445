/** The desk and its aide, as a process under test has them. */
import { randomUUID } from "node:crypto";
import { agent, NotDone } from "../../../dist/index.js";
import { instant } from "../agents/agent-points.mjs";
import { AIDE, DESK, deskScript, replyIn } from "./desk-script.mjs";

export function desk({ order, points, tools }) {
  const { seed, broken, shape, checkpoint } = order;
  const common = checkpoint === undefined ? {} : { checkpoint };
  const aide = agent({
    ...common,
    name: "aide",
    tools: toolsOf(AIDE, "inside-child"),
    async model({ messages }) {
      await tools.aMoment();
      return replyIn(JSON.parse(messages[0].content), messages);
    },
  });
  return {
    aide,
    desk: agent({ ...common, name: "desk", tools: toolsOf(DESK, "inside-tool"), model }),
  };

  async function model({ messages }) {
    await tools.aMoment();
    const { content } = messages.findLast(({ role }) => role === "user");
    const { turns } = deskScript(seed, content.split(":")[0], shape[content.split(":")[0]]);
    return replyIn(turns.find(({ input }) => input === content).replies, messages);
  }

  function toolsOf(declared, where) {
    return Object.fromEntries(
      Object.entries(declared).map(
        ([name, { mode, approval = false, checked, waits = [], runs }]) => [
          name,
          {
            ...howIn(mode, checked),
            approval: approval && broken !== "acts-unasked",
            retry: { attempts: 1 },
            run: async (input, context) => {
              const entered = instant();
              const says = {};
              for (const signal of waits) {
                points.at("inside-tool-before-wait");
                says.heard = [...(says.heard ?? []), await context.wait(signal)];
                points.at("inside-tool-after-wait");
              }
              if (runs) says.output = await errand(input, context);
              return tools.act(name, broken === "keeps-input" ? asAsked(input) : input, context, {
                where,
                says,
                entered,
              });
            },
          },
        ],
      ),
    );
  }

  /** The broken one says of what must not be done twice that it may be. */
  function howIn(mode, checked) {
    if (broken === "says-repeatable") return { mode: "repeatable" };
    return { mode, ...(checked && { check: (request) => tools.check(request) }) };
  }

  async function errand({ errand: replies }, { run }) {
    const result = await run(
      aide,
      JSON.stringify(replies),
      broken === "runs-anew" ? { as: randomUUID() } : {},
    );
    points.at("after-child-ended");
    if (result.status !== "completed") throw new NotDone(`the aide is ${result.status}`);
    return result.output;
  }
}

const asAsked = ({ asked, ...input }) => ({
  ...input,
  ...(asked !== undefined && { amount: asked }),
});
