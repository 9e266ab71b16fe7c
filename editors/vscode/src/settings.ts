/** The settings of the extension, and those that it hands to the server. */

import type { ImportStrategy, Wish } from "./locate";

/** What is handed to the server, by name; `torchlint/server/schema.py` says what each means. */
export const SERVER_SETTINGS = ["select", "ignore", "preview", "unsafeFixes", "debounce"] as const;
/** What decides which server is started. */
export const LAUNCH_SETTINGS = ["path", "interpreter", "importStrategy"] as const;

/** The part of `vscode.WorkspaceConfiguration` that is needed. */
export interface Configuration {
  get<Value>(name: string): Value | undefined;
}

export function serverSettings(configuration: Configuration): Record<string, unknown> {
  return Object.fromEntries(SERVER_SETTINGS.map((name) => [name, configuration.get(name)]));
}

/** Which server is wanted; paths may start with `~` or `${workspaceFolder}`. */
export function wishOf(configuration: Configuration, workspaceFolder: string | undefined, home: string): Wish {
  const place = (name: string): string => resolved(configuration.get<string>(name) ?? "", workspaceFolder, home);
  const strategy = configuration.get<ImportStrategy>("importStrategy");
  return {
    path: place("path"),
    interpreter: place("interpreter"),
    importStrategy: strategy === "useBundled" ? strategy : "fromEnvironment",
  };
}

function resolved(place: string, workspaceFolder: string | undefined, home: string): string {
  const full = place.trim().replace(/^~(?=$|[\\/])/, () => home);
  return workspaceFolder === undefined ? full : full.replaceAll("${workspaceFolder}", () => workspaceFolder);
}
