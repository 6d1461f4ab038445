/**
 * The command line, compiled, is put together into few files: loading 200 small ones takes longer
 * than all the rest of its start. The library stays one file for each source, as programs that
 * bundle it, and people that step through it, want it.
 */
import { defineConfig } from "rolldown";

export default defineConfig({
  input: { holdfast: "dist/cli/main.js", child: "dist/cli/demo/child.js" },
  platform: "node",
  external: (id) => !id.startsWith(".") && !id.startsWith("/"),
  output: {
    // Spaces and comments are a third of what is read; names stay, for whoever reads a trace.
    minify: { compress: false, mangle: false, codegen: { removeWhitespace: true } },
    dir: "dist/bin", cleanDir: true, entryFileNames: "[name].js", chunkFileNames: "[name].js",
  },
});
