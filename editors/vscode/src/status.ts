/** The item in the status bar: whether the server runs, and which one it is. */

import * as vscode from "vscode";

export type State = "starting" | "running" | "stopped" | "failed";

const ICONS: Record<State, string> = {
  starting: "$(sync~spin)",
  running: "$(check)",
  stopped: "$(circle-slash)",
  failed: "$(error)",
};

export class Status implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem("torchlint.status", vscode.StatusBarAlignment.Right, 100);

  /** A click on the item runs `command`. */
  constructor(command: string) {
    this.item.name = "torchlint";
    this.item.command = command;
    this.show("starting", "");
    this.follow();
  }

  show(state: State, detail: string): void {
    this.item.text = `${ICONS[state]} torchlint`;
    this.item.tooltip = `torchlint: ${state}${detail && `\n${detail}`}`;
    this.item.backgroundColor =
      state === "failed" ? new vscode.ThemeColor("statusBarItem.errorBackground") : undefined;
  }

  /** Be there while Python is to be seen: in an editor, or in a notebook. */
  follow(): void {
    const isPython = vscode.window.visibleTextEditors.some((editor) => editor.document.languageId === "python");
    if (isPython || vscode.window.visibleNotebookEditors.length > 0) {
      this.item.show();
    } else {
      this.item.hide();
    }
  }

  dispose(): void {
    this.item.dispose();
  }
}
