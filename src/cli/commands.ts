/** All commands, in the order in which help lists them. */

import { cancel } from "./commands/change/cancel.js";
import { approve, deny, settle } from "./commands/change/decisions.js";
import { fork } from "./commands/change/fork.js";
import { rewind } from "./commands/change/rewind.js";
import { rm } from "./commands/change/rm.js";
import { switchBranch } from "./commands/change/switch.js";
import { agents, restore, snapshot, snapshots } from "./commands/inspect/agents.js";
import { bisect } from "./commands/inspect/bisect.js";
import { diff } from "./commands/inspect/diff.js";
import { effects } from "./commands/inspect/effects.js";
import { log } from "./commands/inspect/log.js";
import { ls } from "./commands/inspect/ls.js";
import { search } from "./commands/inspect/search.js";
import { show } from "./commands/inspect/show.js";
import { stats } from "./commands/inspect/stats.js";
import { tail } from "./commands/inspect/tail.js";
import { backup, markRestored, restoreBackup } from "./commands/maintain/backup.js";
import { doctor } from "./commands/maintain/doctor.js";
import { exportCommand } from "./commands/maintain/export.js";
import { gc } from "./commands/maintain/gc.js";
import { importCommand } from "./commands/maintain/import.js";
import { prune } from "./commands/maintain/prune.js";
import { verify } from "./commands/maintain/verify.js";
import { completing, completion } from "./commands/start/completion.js";
import { demo } from "./commands/start/demo.js";
import { mcp } from "./commands/start/mcp.js";
import type { Command } from "./framework/command.js";

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
  switchBranch,
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
  markRestored,
  mcp,
  completing,
];
