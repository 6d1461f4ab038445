/** All commands, in the order in which help lists them. */
import type { Command } from "./command.js";
import { adopt } from "./commands/adopt.js";
import { agents, restore, snapshot, snapshots } from "./commands/agents.js";
import { backup, restoreBackup, restored } from "./commands/backup.js";
import { bisect } from "./commands/bisect.js";
import { cancel } from "./commands/cancel.js";
import { completing, completion } from "./commands/completion.js";
import { approve, deny, settle } from "./commands/decisions.js";
import { demo } from "./commands/demo.js";
import { diff } from "./commands/diff.js";
import { doctor } from "./commands/doctor.js";
import { effects } from "./commands/effects.js";
import { exportCommand } from "./commands/export.js";
import { fork } from "./commands/fork.js";
import { gc } from "./commands/gc.js";
import { importCommand } from "./commands/import.js";
import { log } from "./commands/log.js";
import { ls } from "./commands/ls.js";
import { mcp } from "./commands/mcp.js";
import { prune } from "./commands/prune.js";
import { rewind } from "./commands/rewind.js";
import { rm } from "./commands/rm.js";
import { search } from "./commands/search.js";
import { show } from "./commands/show.js";
import { stats } from "./commands/stats.js";
import { tail } from "./commands/tail.js";
import { verify } from "./commands/verify.js";

export const commands: readonly Command[] = [
  demo,
  completion,
  ls,
  log,
  show,
  diff,
  search,
  tail,
  bisect,
  stats,
  fork,
  rewind,
  adopt,
  cancel,
  effects,
  approve,
  deny,
  settle,
  agents,
  snapshots,
  snapshot,
  restore,
  prune,
  rm,
  gc,
  verify,
  doctor,
  importCommand,
  exportCommand,
  backup,
  restoreBackup,
  restored,
  mcp,
  completing,
];
