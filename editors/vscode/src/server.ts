/** The server of this window: found, started, stopped, and told of settings. */

import { homedir } from "node:os";
import * as vscode from "vscode";
import { DidChangeConfigurationNotification, LanguageClient, State } from "vscode-languageclient/node";
import type { LanguageClientOptions } from "vscode-languageclient/node";

import { locate } from "./locate";
import type { Launch, Located } from "./locate";
import { bundleIn, LocalMachine } from "./machine";
import { chosenInterpreter } from "./python_extension";
import { serverSettings, wishOf } from "./settings";
import type { Status } from "./status";

/** Python in files, in texts that were never saved, and in the cells of notebooks. */
const DOCUMENTS = ["file", "untitled", "vscode-notebook-cell"].map((scheme) => ({ scheme, language: "python" }));

export class Server {
  private client: LanguageClient | undefined;
  private launch: Launch | undefined;
  private work: Promise<void> = Promise.resolve();

  constructor(
    private readonly extension: string,
    private readonly log: vscode.OutputChannel,
    private readonly status: Status,
  ) {}

  /** Find the server anew and start it; what was running is stopped. */
  restart(): Promise<void> {
    return this.enqueue(async () => {
      this.status.show("starting", "looking for torchlint");
      await this.end();
      await this.begin(await this.locate());
    });
  }

  /** The same, unless the server that would be started is the one that runs. */
  relocate(): Promise<void> {
    return this.enqueue(async () => {
      const found = await this.locate();
      if (!this.client || !isSame(found.launch, this.launch)) {
        await this.end();
        await this.begin(found);
      }
    });
  }

  stop(): Promise<void> {
    return this.enqueue(() => this.end());
  }

  /** Tell the server of the settings of the editor. */
  async configure(): Promise<void> {
    if (this.client?.isRunning()) {
      await this.client.sendNotification(DidChangeConfigurationNotification.type, { settings: settings() });
    }
  }

  /** One thing after another: a restart may be asked for while another is under way. */
  private enqueue(task: () => Promise<void>): Promise<void> {
    this.work = this.work.then(task).catch((error: unknown) => this.fail(String(error)));
    return this.work;
  }

  private async locate(): Promise<Located> {
    const isTrusted = vscode.workspace.isTrusted;
    const folders = localFolders();
    const machine = new LocalMachine(this.extension, isTrusted ? [] : folders.map((folder) => folder.fsPath));
    const wish = wishOf(configuration(), folders[0]?.fsPath, homedir());
    const chosen = isTrusted && !wish.interpreter ? await chosenInterpreter(folders[0]) : undefined;
    return locate(wish, chosen, machine, bundleIn(this.extension));
  }

  private async begin({ launch, passedOver }: Located): Promise<void> {
    passedOver.forEach((reason) => this.log.appendLine(`passed over: ${reason}`));
    if (!launch) {
      await this.fail(passedOver.at(-1) ?? "there is none");
      return;
    }
    this.log.appendLine(`starting ${launch.description}`);
    this.launch = launch;
    this.client = this.clientOf(launch);
    await this.client.start();
  }

  private clientOf(launch: Launch): LanguageClient {
    const { command, args } = launch;
    const options = { cwd: localFolders()[0]?.fsPath ?? this.extension };
    const client = new LanguageClient("torchlint", "torchlint", { command, args, options }, this.clientOptions());
    client.onDidChangeState(({ newState }) => {
      const state = { [State.Starting]: "starting", [State.Running]: "running", [State.Stopped]: "stopped" } as const;
      this.status.show(state[newState], launch.description);
    });
    return client;
  }

  private clientOptions(): LanguageClientOptions {
    return { documentSelector: DOCUMENTS, initializationOptions: settings(), outputChannel: this.log };
  }

  private async end(): Promise<void> {
    const client = this.client;
    this.client = this.launch = undefined;
    await client?.dispose();
  }

  private async fail(reason: string): Promise<void> {
    this.log.appendLine(`not started: ${reason}`);
    this.status.show("failed", reason);
    const answer = "Show Log";
    void vscode.window.showErrorMessage(`torchlint could not be started: ${reason}`, answer).then((chosen) => {
      if (chosen === answer) {
        this.log.show();
      }
    });
  }
}

function configuration(): vscode.WorkspaceConfiguration {
  return vscode.workspace.getConfiguration("torchlint");
}

function settings(): Record<string, unknown> {
  return serverSettings(configuration());
}

function localFolders(): vscode.Uri[] {
  const folders = vscode.workspace.workspaceFolders ?? [];
  return folders.map((folder) => folder.uri).filter((uri) => uri.scheme === "file");
}

function isSame(one: Launch | undefined, other: Launch | undefined): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
