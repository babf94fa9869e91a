import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";

import {
  CodeActionRequest,
  ConfigurationRequest,
  DidOpenNotebookDocumentNotification,
  DidOpenTextDocumentNotification,
  type DocumentDiagnosticReport,
  DocumentDiagnosticRequest,
  ExecuteCommandRequest,
  ExitNotification,
  InitializeRequest,
  InitializedNotification,
  NotebookCellKind,
  type ProtocolConnection,
  RegistrationRequest,
  ShowMessageNotification,
  ShutdownRequest,
  StreamMessageReader,
  StreamMessageWriter,
  createProtocolConnection,
} from "vscode-languageserver-protocol/node";
import { TextDocument } from "vscode-languageserver-textdocument";

import manifest from "../package.json";
import { SECTION, serverIn } from "../src/interpreter";

const TEXT = "import torch\n\nx = torch.zeros(3)\ns = '😀'; x.to('cuda')\nprint(x)\n";

const folder = mkdtempSync(join(tmpdir(), "placement-lint-"));
const uriOf = (name: string) => pathToFileURL(join(folder, name)).href;
const messages: string[] = [];
let server: ChildProcess;
let connection: ProtocolConnection;

/** The settings as VS Code sends them if the user has set none. */
function defaults(): object {
  const settings: Record<string, unknown> = {};
  for (const [name, { default: value }] of Object.entries(manifest.contributes.configuration.properties)) {
    const [first = "", second] = name.slice(SECTION.length + 1).split(".");
    settings[first] = second === undefined ? value : { [second]: value };
  }
  return settings;
}

function items(report: DocumentDiagnosticReport) {
  assert.equal(report.kind, "full");
  return report.items;
}

before(async () => {
  const { command, args } = serverIn(process.env.PYTHON ?? "python3");
  const child = spawn(command, args, { cwd: folder, stdio: ["pipe", "pipe", "inherit"] });
  server = child;
  connection = createProtocolConnection(new StreamMessageReader(child.stdout), new StreamMessageWriter(child.stdin));
  connection.onRequest(ConfigurationRequest.type, ({ items }) => {
    assert.deepEqual(items.map((each) => each.section), items.map(() => SECTION));
    return items.map(defaults);
  });
  connection.onRequest(RegistrationRequest.type, () => undefined);
  connection.onNotification(ShowMessageNotification.type, ({ message }) => {
    messages.push(message);
  });
  connection.listen();
  const { capabilities, serverInfo } = await connection.sendRequest(InitializeRequest.type, {
    processId: process.pid,
    rootUri: pathToFileURL(folder).href,
    workspaceFolders: [{ uri: pathToFileURL(folder).href, name: "project" }],
    capabilities: {
      workspace: { configuration: true, workspaceFolders: true, workspaceEdit: { documentChanges: true } },
      textDocument: { diagnostic: {}, codeAction: { resolveSupport: { properties: ["edit"] } } },
      notebookDocument: { synchronization: {} },
    },
  });
  assert.equal(serverInfo?.name, "placement-lint");
  assert.equal(serverInfo?.version, manifest.version);
  assert.ok(capabilities.executeCommandProvider?.commands.includes("placement-lint.probe"));
  await connection.sendNotification(InitializedNotification.type, {});
});

after(async () => {
  await connection.sendRequest(ShutdownRequest.type);
  const exit = once(server, "exit");
  await connection.sendNotification(ExitNotification.type);
  assert.deepEqual(await exit, [0, null]);
  rmSync(folder, { recursive: true });
});

test("a finding and its fix", async () => {
  const document = TextDocument.create(uriOf("train.py"), "python", 1, TEXT);
  await connection.sendNotification(DidOpenTextDocumentNotification.type, {
    textDocument: { uri: document.uri, languageId: "python", version: 1, text: TEXT },
  });
  const textDocument = { uri: document.uri };
  const [finding, ...others] = items(await connection.sendRequest(DocumentDiagnosticRequest.type, { textDocument }));
  assert.ok(finding);
  assert.deepEqual(others, []);
  assert.equal(finding.code, "DPL501");
  assert.equal(finding.source, "placement-lint");
  assert.deepEqual(finding.range.start, { line: 3, character: 10 });
  const actions = await connection.sendRequest(CodeActionRequest.type, {
    textDocument,
    range: finding.range,
    context: { diagnostics: [finding] },
  });
  const fix = actions?.find((each) => "isPreferred" in each && each.isPreferred);
  assert.ok(fix && "edit" in fix);
  const [change] = fix.edit?.documentChanges ?? [];
  assert.ok(change && "edits" in change);
  assert.equal(change.textDocument.uri, document.uri);
  const edits = change.edits.filter((each) => "newText" in each);
  assert.equal(TextDocument.applyEdits(document, edits), TEXT.replace("x.to", "x = x.to"));
});

test("the cells of a notebook", async () => {
  const cells = ["import torch\nx = torch.zeros(3)", "x.to('cuda')\nprint(x)"].map((text, number) => ({
    uri: `vscode-notebook-cell:${join(folder, "train.ipynb")}#W${number}sZmlsZQ%3D%3D`,
    languageId: "python",
    version: 1,
    text,
  }));
  await connection.sendNotification(DidOpenNotebookDocumentNotification.type, {
    notebookDocument: {
      uri: uriOf("train.ipynb"),
      notebookType: "jupyter-notebook",
      version: 1,
      cells: cells.map(({ uri }) => ({ kind: NotebookCellKind.Code, document: uri })),
    },
    cellTextDocuments: cells,
  });
  const codes = cells.map(async ({ uri }) => {
    const report = await connection.sendRequest(DocumentDiagnosticRequest.type, { textDocument: { uri } });
    return items(report).map((each) => each.code);
  });
  assert.deepEqual(await Promise.all(codes), [[], ["DPL501"]]);
});

test("the timeline of a script", async () => {
  const draw = { command: "placement-lint.timeline", arguments: [{ uri: uriOf("train.py"), show: false }] };
  const file: unknown = await connection.sendRequest(ExecuteCommandRequest.type, draw);
  assert.equal(typeof file, "string");
  const page = readFileSync(String(file), "utf8");
  assert.ok(page.includes("<title>Timeline</title>") && page.includes('"label":"x"'));
  assert.ok(page.includes("DPL501"));
});

test("the settings of the extension are accepted", () => {
  assert.deepEqual(messages, []);
});
