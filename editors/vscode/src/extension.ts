/** torchlint in Visual Studio Code: what starts when a Python file or a notebook is opened. */

import * as vscode from "vscode";

import { MENU, registerCommands } from "./commands";
import { onChosen } from "./python_extension";
import { Server } from "./server";
import { LAUNCH_SETTINGS } from "./settings";
import { Status } from "./status";

let server: Server | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const log = vscode.window.createOutputChannel("torchlint");
  const status = new Status(MENU);
  const running = (server = new Server(context.extensionPath, log, status));
  context.subscriptions.push(
    log,
    status,
    ...registerCommands(running, log),
    vscode.window.onDidChangeVisibleTextEditors(() => status.follow()),
    vscode.window.onDidChangeVisibleNotebookEditors(() => status.follow()),
    vscode.workspace.onDidChangeConfiguration((change) => configurationChanged(running, change)),
    vscode.workspace.onDidGrantWorkspaceTrust(() => trusted(context, running)),
    vscode.workspace.onDidChangeWorkspaceFolders(() => running.relocate()),
  );
  await running.restart();
  if (vscode.workspace.isTrusted) {
    await followChosen(context, running);
  }
}

export function deactivate(): Promise<void> | undefined {
  return server?.stop();
}

async function configurationChanged(running: Server, change: vscode.ConfigurationChangeEvent): Promise<void> {
  if (LAUNCH_SETTINGS.some((name) => change.affectsConfiguration(`torchlint.${name}`))) {
    await running.restart();
  } else if (change.affectsConfiguration("torchlint")) {
    await running.configure();
  }
}

async function trusted(context: vscode.ExtensionContext, running: Server): Promise<void> {
  await running.relocate();
  await followChosen(context, running);
}

/** Start the server of another interpreter when another is chosen. */
async function followChosen(context: vscode.ExtensionContext, running: Server): Promise<void> {
  const following = await onChosen(() => void running.relocate());
  if (following) {
    context.subscriptions.push(following);
  }
}
