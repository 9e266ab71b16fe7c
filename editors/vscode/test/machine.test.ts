/** What is asked of this machine: programs on the PATH, and what they answer. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { after, test } from "node:test";

import { bundleIn, LocalMachine } from "../src/machine";

const scratch = mkdtempSync(path.join(tmpdir(), "torchlint-"));
const isWindows = process.platform === "win32";
after(() => rmSync(scratch, { recursive: true }));

function folder(name: string): string {
  const made = path.join(scratch, name);
  mkdirSync(made, { recursive: true });
  return made;
}

/** A program that prints to its output and errors, and ends with a code. */
function program(where: string, name: string, output: string, errors = "", code = 0): string {
  const file = path.join(folder(where), name);
  writeFileSync(file, `#!/bin/sh\ncat <<'END'\n${output}\nEND\ncat >&2 <<'END'\n${errors}\nEND\nexit ${code}\n`);
  chmodSync(file, 0o755);
  return file;
}

const unix = { skip: isWindows && "the programs of the test are scripts of a shell" };

test("programs are found in the order of the PATH, in full folders only", unix, () => {
  const [first, second] = [program("one", "tool", ""), program("two", "tool", "")];
  writeFileSync(path.join(folder("three"), "tool"), "not a program");
  const searchPath = ["", ".", "one", path.dirname(second), path.join(scratch, "three"), path.dirname(first)];
  const machine = new LocalMachine(scratch, [], searchPath.join(path.delimiter));
  assert.deepEqual(machine.onPath("tool"), [second, first]);
  assert.deepEqual(machine.onPath("other"), []);
});

test("nothing is taken from a folder that is not trusted, nor through links to it", unix, () => {
  const own = program("own/bin", "tool", "");
  const theirs = program("workspace/.venv/bin", "tool", "");
  symlinkSync(path.dirname(theirs), path.join(scratch, "link"));
  symlinkSync(theirs, path.join(folder("linked"), "tool"));
  symlinkSync(own, path.join(folder("workspace/bin"), "tool"));
  symlinkSync(path.join(scratch, "workspace"), path.join(scratch, "opened"));
  const places = [path.dirname(theirs), "link", "linked", "workspace/bin", "own/bin"];
  const searchPath = places.map((place) => path.resolve(scratch, place)).join(path.delimiter);
  for (const avoided of ["workspace", "opened"]) {
    const machine = new LocalMachine(scratch, [path.join(scratch, avoided)], searchPath);
    assert.deepEqual(machine.onPath("tool"), [own], avoided);
  }
  assert.equal(new LocalMachine(scratch, [], searchPath).onPath("tool").length, 5);
  const beside = new LocalMachine(scratch, [path.join(scratch, "ow")], path.join(scratch, "own/bin"));
  assert.deepEqual(beside.onPath("tool"), [own], "a folder whose name starts alike is another one");
});

test("an interpreter says what its environment holds", unix, async () => {
  const machine = new LocalMachine(scratch, []);
  const real = execFileSync("python3", ["-c", "import sys; print(sys.executable)"], { encoding: "utf8" }).trim();
  const answer = await machine.probe(real);
  assert.ok(typeof answer !== "string", String(answer));
  assert.deepEqual([answer.executable, answer.python[0]], [real, 3]);
  const said = '{"executable": "/x", "python": [3, 12], "torchlint": "0.1.0", "pygls": null}';
  assert.deepEqual(await machine.probe(program("made", "python", `a greeting\n${said}`)), {
    executable: "/x",
    python: [3, 12],
    torchlint: "0.1.0",
    pygls: undefined,
  });
});

test("an interpreter that does not answer is told by its last words", unix, async () => {
  const machine = new LocalMachine(scratch, []);
  assert.equal(await machine.probe(program("x", "fails", "", "Traceback\nImportError: no json\n", 1)), "ImportError: no json");
  assert.equal(await machine.probe(program("x", "silent", "", "", 3)), "it ends with exit code 3");
  for (const output of ["hello", '{"executable": "/x", "python": "3"}', '{"python": [3, 12]}', "null", ""]) {
    assert.equal(await machine.probe(program("x", "odd", output)), "it gives an answer that is not Python's");
  }
  assert.match((await machine.probe(path.join(scratch, "absent"))) as string, /ENOENT/);
});

test("a server is tried without input", unix, async () => {
  const machine = new LocalMachine(scratch, []);
  assert.equal(await machine.tryServer(program("x", "good", "")), "");
  const bad = program("x", "bad", "", "Error: the language server needs pygls", 2);
  assert.equal(await machine.tryServer(bad), "Error: the language server needs pygls");
});

test("a bundle is what its script says it is", () => {
  assert.equal(bundleIn(scratch), undefined);
  writeFileSync(path.join(folder("extension/bundled"), "bundle.json"), '{"target": "linux-x64", "pythons": ["3.12"]}');
  const start = path.join(scratch, "extension", "bundled", "start.py");
  assert.deepEqual(bundleIn(path.join(scratch, "extension")), { start, pythons: ["3.12"] });
});
