/** The settings, as the manifest offers them and as they are read. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { LAUNCH_SETTINGS, SERVER_SETTINGS, serverSettings, wishOf } from "../src/settings";

interface Manifest {
  capabilities: { untrustedWorkspaces: { supported: string; restrictedConfigurations: string[] } };
  contributes: { commands: { command: string }[]; configuration: { properties: Record<string, { default: unknown }> } };
}

const manifest = JSON.parse(readFileSync("package.json", "utf8")) as Manifest;
const { properties } = manifest.contributes.configuration;

function configuration(values: Record<string, unknown>): { get<Value>(name: string): Value | undefined } {
  return { get: <Value>(name: string) => values[name] as Value | undefined };
}

test("every setting of the manifest is read, and every one that is read is there", () => {
  const read = [...SERVER_SETTINGS, ...LAUNCH_SETTINGS, "trace.server"].map((name) => `torchlint.${name}`);
  assert.deepEqual(Object.keys(properties).sort(), read.sort());
});

test("what decides which program runs cannot be set by a workspace that is not trusted", () => {
  const { supported, restrictedConfigurations } = manifest.capabilities.untrustedWorkspaces;
  assert.equal(supported, "limited");
  assert.deepEqual(restrictedConfigurations, ["path", "interpreter", "importStrategy"].map((name) => `torchlint.${name}`));
});

test("the server is handed its own settings only", () => {
  const values = { select: ["TL2"], ignore: [], preview: true, unsafeFixes: false, debounce: 90, path: "/x", trace: {} };
  assert.deepEqual(serverSettings(configuration(values)), {
    select: ["TL2"],
    ignore: [],
    preview: true,
    unsafeFixes: false,
    debounce: 90,
  });
});

test("paths may start at home or in the folder that is open", () => {
  const values = { path: " ~/bin/torchlint ", interpreter: "${workspaceFolder}/.venv/bin/python", importStrategy: "?" };
  assert.deepEqual(wishOf(configuration(values), "/project/$&", "/home/$1"), {
    path: "/home/$1/bin/torchlint",
    interpreter: "/project/$&/.venv/bin/python",
    importStrategy: "fromEnvironment",
  });
  assert.equal(wishOf(configuration({ path: "~user/x" }), undefined, "/home/me").path, "~user/x");
  assert.equal(wishOf(configuration(values), undefined, "/home/me").interpreter, values.interpreter);
});
