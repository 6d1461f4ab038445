export interface Source {
  readonly file: string;
  readonly text: string;
}
export interface Import {
  readonly from: string;
  readonly to: string;
}
export function sourcesIn(directory: string): readonly Source[];
export function folderOf(file: string): string;
export function importsOf(sources: readonly Source[]): readonly Import[];
export function folderEdges(
  imports: readonly Import[],
  isSource: (file: string) => boolean,
): ReadonlyMap<string, ReadonlySet<string>>;
export function cyclesIn(
  edges: ReadonlyMap<string, ReadonlySet<string>>,
): readonly (readonly string[])[];
export function featureImports(imports: readonly Import[]): readonly Import[];
export function callersOfSaves(sources: readonly Source[]): readonly string[];
