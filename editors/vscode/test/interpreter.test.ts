import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, test } from "node:test";

import { configuredPath, findInterpreter, hasServer, pipCommand, pythonEnvironments } from "../src/interpreter";
import { type Folder, state } from "./vscode";

const PYTHON = process.env.PYTHON ?? "python3";
const FALLBACK = process.platform === "win32" ? "python" : "python3";

/** A Python extension whose active environment, asked for a folder, has an executable or none. */
function pythonExtension(executableOf: (folder: string | undefined) => string | undefined): void {
  const environments = {
    getActiveEnvironmentPath: (folder?: Folder["uri"]) => ({ path: folder?.fsPath ?? "" }),
    resolveEnvironment: async ({ path }: { path: string }) => {
      const executable = executableOf(path);
      return { executable: { uri: executable && { fsPath: executable } } };
    },
  };
  state.extensions.set("ms-python.python", { activate: async () => ({ environments }) });
}

const found = async () => findInterpreter(await pythonEnvironments());

beforeEach(() => {
  state.folders = [];
  state.extensions.clear();
  state.settings.clear();
});

test("the active environment of the Python extension comes first", async () => {
  pythonExtension((folder) => `${folder}/venv/bin/python`);
  state.folders = [{ uri: { fsPath: "/project" } }, { uri: { fsPath: "/other" } }];
  state.settings.set("placement-lint.interpreter", "/usr/bin/python3.12");
  assert.equal(await found(), "/project/venv/bin/python");
});

test("an environment without Python is no interpreter", async () => {
  pythonExtension(() => undefined);
  assert.equal(await found(), FALLBACK);
  state.settings.set("placement-lint.interpreter", "/usr/bin/python3.12");
  assert.equal(await found(), "/usr/bin/python3.12");
});

test("without the Python extension the setting counts", async () => {
  assert.equal(await found(), FALLBACK);
  state.settings.set("placement-lint.interpreter", "/usr/bin/python3.12");
  assert.equal(await found(), "/usr/bin/python3.12");
});

test("a Python extension without environments is like none", async () => {
  state.extensions.set("ms-python.python", { activate: async () => ({}) });
  assert.equal(await found(), FALLBACK);
});

test("a program may be set in place of the interpreter", () => {
  assert.equal(configuredPath(), "");
  state.settings.set("placement-lint.path", "/usr/local/bin/placement-lint");
  assert.equal(configuredPath(), "/usr/local/bin/placement-lint");
});

test("an interpreter with, without, and that does not exist", async () => {
  const folder = mkdtempSync(join(tmpdir(), "placement-lint-"));
  try {
    assert.equal(await hasServer(PYTHON, folder), true);
    const empty = join(folder, "empty environment");
    execFileSync(PYTHON, ["-m", "venv", "--without-pip", empty]);
    const inside = process.platform === "win32" ? "Scripts/python.exe" : "bin/python";
    assert.equal(await hasServer(join(empty, inside), folder), false);
    await assert.rejects(hasServer(join(folder, "python"), folder), { code: "ENOENT" });
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("the command that installs the server quotes the interpreter", () => {
  assert.equal(pipCommand("/my venv/bin/python"), '"/my venv/bin/python" -m pip install "placement-lint[server]"');
});
