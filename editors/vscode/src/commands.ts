/** The commands of the extension, in the palette and in the menu of the status item. */

import * as vscode from "vscode";

import type { Server } from "./server";

const FIX_ALL = "source.fixAll.torchlint";
export const MENU = "torchlint.menu";

export function registerCommands(server: Server, log: vscode.OutputChannel): vscode.Disposable[] {
  const commands: Record<string, () => unknown> = {
    "torchlint.fixAll": fixAll,
    "torchlint.restart": () => server.restart(),
    "torchlint.showLog": () => log.show(),
    "torchlint.openSettings": () => vscode.commands.executeCommand("workbench.action.openSettings", "torchlint."),
    [MENU]: menu,
  };
  return Object.entries(commands).map(([name, run]) => vscode.commands.registerCommand(name, run));
}

/** Make all safe fixes in the file or notebook of the active editor. */
async function fixAll(): Promise<void> {
  const document = vscode.window.activeTextEditor?.document ?? activeCell();
  if (document?.languageId !== "python") {
    void vscode.window.showInformationMessage("torchlint fixes Python files and notebooks: open one");
    return;
  }
  const everything = new vscode.Range(0, 0, document.lineCount, 0);
  const actions = await vscode.commands.executeCommand<vscode.CodeAction[]>(
    "vscode.executeCodeActionProvider",
    document.uri,
    everything,
    FIX_ALL,
  );
  const edit = actions.find((action) => action.kind?.value === FIX_ALL)?.edit;
  if (!edit) {
    void vscode.window.showInformationMessage("torchlint has nothing here that is safe to fix");
  } else if (!(await vscode.workspace.applyEdit(edit))) {
    void vscode.window.showErrorMessage("torchlint: the fixes could not be made; was the file edited meanwhile?");
  }
}

/** A cell of Python in the active notebook, of which one stands for all. */
function activeCell(): vscode.TextDocument | undefined {
  const cells = vscode.window.activeNotebookEditor?.notebook.getCells() ?? [];
  return cells.map((cell) => cell.document).find((document) => document.languageId === "python");
}

async function menu(): Promise<void> {
  const entries = [
    { label: "$(wand) Apply All Safe Fixes", command: "torchlint.fixAll" },
    { label: "$(output) Show Log", command: "torchlint.showLog" },
    { label: "$(debug-restart) Restart Server", command: "torchlint.restart" },
    { label: "$(gear) Settings", command: "torchlint.openSettings" },
  ];
  const chosen = await vscode.window.showQuickPick(entries, { title: "torchlint" });
  if (chosen) {
    await vscode.commands.executeCommand(chosen.command);
  }
}
