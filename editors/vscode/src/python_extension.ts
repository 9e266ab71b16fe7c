/** The interpreter that was chosen in the Python extension. */

import { PythonExtension } from "@vscode/python-extension";
import * as vscode from "vscode";

const IDENTIFIER = "ms-python.python";

/** The chosen interpreter for a folder; undefined without that extension, or where none is chosen. */
export async function chosenInterpreter(folder: vscode.Uri | undefined): Promise<string | undefined> {
  const environments = (await api())?.environments;
  if (!environments) {
    return undefined;
  }
  const environment = await environments.resolveEnvironment(environments.getActiveEnvironmentPath(folder));
  return environment?.executable.uri?.fsPath;
}

/** Calls back whenever another interpreter is chosen. */
export async function onChosen(changed: () => void): Promise<vscode.Disposable | undefined> {
  return (await api())?.environments.onDidChangeActiveEnvironmentPath(changed);
}

async function api(): Promise<PythonExtension | undefined> {
  return vscode.extensions.getExtension(IDENTIFIER) ? PythonExtension.api() : undefined;
}
