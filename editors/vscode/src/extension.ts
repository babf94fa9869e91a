import { readFile } from "node:fs/promises";
import { basename } from "node:path";

import * as vscode from "vscode";
import {
  type Executable,
  ExecuteCommandRequest,
  LanguageClient,
  RevealOutputChannelOn,
  State,
} from "vscode-languageclient/node";

import {
  type Command,
  SECTION,
  configuredPath,
  findInterpreter,
  hasServer,
  pipCommand,
  pythonEnvironments,
  serverIn,
  serverOf,
} from "./interpreter";

const NAME = "placement-lint";
const PROBE = "placement-lint.probe"; // commands of the server
const TIMELINE = "placement-lint.timeline";
const SELECTOR = ["file", "untitled", "vscode-notebook-cell"].map((scheme) => ({ language: "python", scheme }));
const STATES = new Map([
  [State.Starting, "starting"],
  [State.Running, "running"],
  [State.Stopped, "stopped"],
  [State.StartFailed, "failed to start"],
]);

/** The language server, which is started again when its command or its interpreter changes. */
class Server {
  private client: LanguageClient | undefined;
  private turn = Promise.resolve();

  /** The server runs in a folder without Python modules, which would otherwise shadow installed ones. */
  constructor(
    private readonly folder: string,
    private readonly log: vscode.LogOutputChannel,
    private readonly status: vscode.LanguageStatusItem,
  ) {}

  get running(): LanguageClient | undefined {
    return this.client?.state === State.Running ? this.client : undefined;
  }

  restart(): Promise<void> {
    this.turn = this.turn.then(() => this.replace()).catch((error) => this.fail(message(error)));
    return this.turn;
  }

  async stop(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    await client?.dispose();
  }

  private async replace(): Promise<void> {
    await this.stop();
    const command = await this.command();
    if (command === undefined) {
      return;
    }
    this.log.info(`starting ${[command.command, ...command.args].join(" ")}`);
    const executable: Executable = { ...command, options: { cwd: this.folder } };
    const client = new LanguageClient(NAME, NAME, executable, {
      documentSelector: SELECTOR,
      outputChannel: this.log,
      revealOutputChannelOn: RevealOutputChannelOn.Never,
    });
    client.onDidChangeState(({ newState }) => this.show(STATES.get(newState) ?? "", newState));
    this.client = client;
    await client.start();
    this.status.text = `${NAME} ${client.initializeResult?.serverInfo?.version ?? ""}`;
    this.status.detail = command.command;
  }

  private async command(): Promise<Command | undefined> {
    const path = configuredPath();
    if (path) {
      return serverOf(path);
    }
    const interpreter = await findInterpreter(await this.environments());
    try {
      if (await hasServer(interpreter, this.folder)) {
        return serverIn(interpreter);
      }
    } catch (error) {
      this.fail(`cannot run ${interpreter}: ${message(error)}`);
      return undefined;
    }
    this.fail(`placement-lint[server] is not installed in ${interpreter}`, pipCommand(interpreter));
    return undefined;
  }

  private async environments(): ReturnType<typeof pythonEnvironments> {
    try {
      return await pythonEnvironments();
    } catch (error) {
      this.log.warn(`the Python extension cannot be used: ${message(error)}`);
      return undefined;
    }
  }

  private show(detail: string, state: State): void {
    this.status.busy = state === State.Starting;
    this.status.detail = detail;
    const failed = state === State.Stopped || state === State.StartFailed;
    this.status.severity = failed ? vscode.LanguageStatusSeverity.Warning : vscode.LanguageStatusSeverity.Information;
  }

  /** Say why the server does not run, and offer the command that installs it. */
  private fail(reason: string, install?: string): void {
    this.log.error(reason);
    this.status.busy = false;
    this.status.detail = reason;
    this.status.severity = vscode.LanguageStatusSeverity.Error;
    void offer(`${NAME}: ${reason}`, install, this.log);
  }
}

async function offer(text: string, install: string | undefined, log: vscode.LogOutputChannel): Promise<void> {
  const [open, output] = ["Open Terminal with pip Command", "Show Output"];
  const chosen = await vscode.window.showErrorMessage(text, ...(install ? [open, output] : [output]));
  if (chosen === open && install) {
    const terminal = vscode.window.createTerminal(NAME);
    terminal.show();
    terminal.sendText(install, false);
  } else if (chosen === output) {
    log.show();
  }
}

/** Run the experiment of the finding at the cursor; the server shows the verdict. */
async function probeFinding(server: Server): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  const client = server.running;
  if (editor === undefined || client === undefined) {
    void vscode.window.showInformationMessage(`${NAME}: ${client ? "no editor is open" : "the server is not running"}`);
    return;
  }
  const { document, selection } = editor;
  const here = vscode.languages
    .getDiagnostics(document.uri)
    .filter((each) => each.source === NAME && each.range.intersection(selection) !== undefined);
  if (here.length === 0) {
    void vscode.window.showInformationMessage(`${NAME}: there is no finding at the cursor`);
    return;
  }
  const items = here.map((each) => ({ label: codeOf(each), description: each.message, diagnostic: each }));
  const chosen = items.length > 1 ? await vscode.window.showQuickPick(items) : items[0];
  if (chosen) {
    const uri = client.code2ProtocolConverter.asUri(document.uri);
    const range = client.code2ProtocolConverter.asRange(chosen.diagnostic.range);
    await client.sendRequest(ExecuteCommandRequest.type, {
      command: PROBE,
      arguments: [{ uri, code: chosen.label, range }],
    });
  }
}

/** Show where the tensors of the script in the editor are, beside it. */
async function showTimeline(server: Server): Promise<void> {
  const document = vscode.window.activeTextEditor?.document;
  const client = server.running;
  if (document === undefined || client === undefined) {
    void vscode.window.showInformationMessage(`${NAME}: ${client ? "no editor is open" : "the server is not running"}`);
    return;
  }
  const uri = client.code2ProtocolConverter.asUri(document.uri);
  const file: unknown = await client.sendRequest(ExecuteCommandRequest.type, {
    command: TIMELINE,
    arguments: [{ uri, show: false }],
  });
  if (typeof file !== "string") {
    return; // the server has said why
  }
  const title = `Timeline of ${basename(document.uri.fsPath)}`;
  const panel = vscode.window.createWebviewPanel(TIMELINE, title, vscode.ViewColumn.Beside, { enableScripts: true });
  panel.webview.html = await readFile(file, "utf8");
}

function codeOf({ code }: vscode.Diagnostic): string {
  return String(typeof code === "object" ? code.value : code);
}

function message(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

let server: Server | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const log = vscode.window.createOutputChannel(NAME, { log: true });
  const status = vscode.languages.createLanguageStatusItem(NAME, SELECTOR);
  status.text = NAME;
  status.command = { title: "Show Output", command: "placement-lint.showOutput" };
  const started = (server = new Server(context.extensionPath, log, status));
  const commands = {
    "placement-lint.restart": () => started.restart(),
    "placement-lint.showOutput": () => log.show(),
    "placement-lint.probeFinding": () => probeFinding(started),
    "placement-lint.showTimeline": () => showTimeline(started),
  };
  context.subscriptions.push(
    log,
    status,
    ...Object.entries(commands).map(([name, run]) => vscode.commands.registerCommand(name, run)),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (["path", "interpreter"].some((key) => change.affectsConfiguration(`${SECTION}.${key}`))) {
        void started.restart();
      }
    }),
  );
  // Before the server starts: the environment may change while it does.
  const environments = await pythonEnvironments().catch(() => undefined);
  if (environments) {
    context.subscriptions.push(environments.onDidChangeActiveEnvironmentPath(() => started.restart()));
  }
  await started.restart();
}

export async function deactivate(): Promise<void> {
  await server?.stop();
}
