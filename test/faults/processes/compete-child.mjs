/**
 * Competes with others for sessions: appends numbered messages, and says which of them were
 * acknowledged and how it lost.
 */
import { open } from "../../../dist/index.js";
import { hear, say } from "../../support/children/said.mjs";
import { random } from "../../support/random.mjs";

const {
  path,
  name,
  ids,
  count,
  seed,
  leaseMs,
  waitMs = 0,
  stallMs = 0,
  doubleWrite = false,
  standsFirst = false,
} = hear();
const rng = random(seed);
const lost = { LEASE_HELD: 0, STALE_LEASE: 0 };
let stalls = 0;
let doubled = 0;
let stands = standsFirst;
const stall = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

const hold = await open(path, leaseMs === undefined ? {} : { leaseMs });
for (const id of ids) {
  for (let n = 0; n < count; ) {
    let session;
    try {
      session = await hold.session(id, { waitMs });
      // Stands still with the session, its heartbeat too, until it is told to go on.
      if (stands) {
        say({ stands: true });
        hear();
        stands = false;
      }
      for (let more = rng.whole(1, 4); more > 0 && n < count; more--) {
        // Blocks the whole process at its first save and now and then, its heartbeat too, for
        // longer than its lease.
        if (stallMs > 0 && (stalls === 0 || rng.next() < 0.1))
          stalls += stall(stallMs) === "timed-out" ? 1 : 0;
        session.append({ role: "user", content: `${name} ${n}` });
        const { id: checkpoint } = await session.checkpoint();
        say({ saved: `${name} ${n}`, session: id, checkpoint });
        n++;
      }
      await session.close();
      if (doubleWrite) n -= doubled++ === 0 ? 1 : 0;
    } catch (error) {
      if (!(error.code in lost) || error.name !== "HoldfastError") {
        say({ fault: `${error.name} ${error.code}: ${error.message}` });
        process.exit(1);
      }
      lost[error.code] += 1;
      say({ lost: error.code, details: error.details, aborted: session?.signal.aborted });
      if (error.code === "LEASE_HELD")
        await new Promise((resolve) => setTimeout(resolve, rng.between(1, 10)));
    }
  }
}
await hold.close();
say({ ended: name });
