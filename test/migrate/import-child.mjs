// Imports in a process that is killed.
import { migrate } from "../../dist/migrate/index.js";

const [kind, path, store] = process.argv.slice(2);
let told = false;
await migrate(kind, path, store, {
  onProgress: () => {
    if (!told) process.stdout.write("reading\n");
    told = true;
  },
});
