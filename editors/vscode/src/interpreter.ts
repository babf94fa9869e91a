import { execFile } from "node:child_process";

import * as vscode from "vscode";

export const SECTION = "placement-lint";

const PYTHON_EXTENSION = "ms-python.python";
const FALLBACK = process.platform === "win32" ? "python" : "python3";
const REQUIRED = ["placement_lint", "pygls", "lsprotocol"];
const CHECK =
  "import sys; from importlib.util import find_spec; sys.exit(not all(map(find_spec, sys.argv[1:])))";

/** The part of the Python extension's API that this extension uses. */
interface Environments {
  getActiveEnvironmentPath(resource?: vscode.Uri): { readonly path: string };
  resolveEnvironment(environment: {
    readonly path: string;
  }): Promise<{ readonly executable: { readonly uri?: vscode.Uri } } | undefined>;
  readonly onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
}

export interface Command {
  readonly command: string;
  readonly args: string[];
}

/** The API of the Python extension; undefined if it is not installed or too old. */
export async function pythonEnvironments(): Promise<Environments | undefined> {
  const extension = vscode.extensions.getExtension<{ environments?: Environments }>(PYTHON_EXTENSION);
  return (await extension?.activate())?.environments;
}

/** The Python to run: the active environment of the Python extension, else the setting, else `python3`. */
export async function findInterpreter(environments: Environments | undefined): Promise<string> {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
  const active = environments?.getActiveEnvironmentPath(folder);
  const resolved = active && (await environments?.resolveEnvironment(active));
  return resolved?.executable.uri?.fsPath ?? (setting(folder, "interpreter") || FALLBACK);
}

/** The program of the setting `path`; empty if the server is to be run by an interpreter. */
export function configuredPath(): string {
  return setting(vscode.workspace.workspaceFolders?.[0]?.uri, "path");
}

export function serverOf(path: string): Command {
  return { command: path, args: ["server"] };
}

export function serverIn(interpreter: string): Command {
  return { command: interpreter, args: ["-m", "placement_lint", "server"] };
}

export function pipCommand(interpreter: string): string {
  return `"${interpreter}" -m pip install "placement-lint[server]"`;
}

/** Whether an interpreter has placement-lint and the libraries of its server; rejects if it cannot run. */
export function hasServer(interpreter: string, folder: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    execFile(interpreter, ["-c", CHECK, ...REQUIRED], { cwd: folder }, (error) => {
      if (error === null || error.code === 1) {
        resolve(error === null);
      } else {
        reject(error);
      }
    });
  });
}

function setting(scope: vscode.Uri | undefined, name: string): string {
  return vscode.workspace.getConfiguration(SECTION, scope).get<string | null>(name) ?? "";
}
