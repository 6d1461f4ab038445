/** The tools of `hold.tools()`: their names, and their types. */

export {
  type StoreTool,
  TOOL_NAMES,
  type ToolName,
  type ToolsFor,
  type ToolsOptions,
} from "./tools.js";
