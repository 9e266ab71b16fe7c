/** Which torchlint is started, on machines that are made up. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { locate } from "../src/locate";
import type { Bundle, Environment, Machine, Wish } from "../src/locate";

type Answer = Omit<Environment, "executable">;

const WHOLE: Answer = { python: [3, 12], torchlint: "0.1.0", pygls: "2.1.1" };
const BARE: Answer = { python: [3, 11] };
const BUNDLE: Bundle = { start: "/extension/bundled/start.py", pythons: ["3.11", "3.12"] };

interface Made {
  /** What interpreters answer, by path; they are files. */
  interpreters?: Record<string, Answer | string>;
  /** What is on the PATH, by name. */
  path?: Record<string, string[]>;
  /** Programs that cannot serve, and why. */
  broken?: Record<string, string>;
}

class MadeMachine implements Machine {
  readonly started: string[] = [];

  constructor(private readonly made: Made) {}

  isFile(path: string): boolean {
    return path in (this.made.interpreters ?? {}) || path.startsWith("/programs/");
  }

  isAvoided(path: string): boolean {
    return path.startsWith("/workspace/");
  }

  onPath(name: string): string[] {
    return this.made.path?.[name] ?? [];
  }

  probe(interpreter: string): Promise<Environment | string> {
    this.started.push(interpreter);
    const answer = this.made.interpreters?.[interpreter] ?? "spawn ENOENT";
    const executable = interpreter.replace(/^\/shims\//, "/real/");
    return Promise.resolve(typeof answer === "string" ? answer : { executable, ...answer });
  }

  tryServer(torchlint: string): Promise<string> {
    this.started.push(torchlint);
    return Promise.resolve(this.made.broken?.[torchlint] ?? "");
  }
}

function wish(wanted: Partial<Wish> = {}): Wish {
  return { path: "", interpreter: "", importStrategy: "fromEnvironment", ...wanted };
}

test("the setting of a path goes before all", async () => {
  const machine = new MadeMachine({ interpreters: { "/env/python": WHOLE } });
  const { launch } = await locate(wish({ path: "/programs/torchlint" }), "/env/python", machine, BUNDLE);
  assert.deepEqual([launch?.command, launch?.args], ["/programs/torchlint", ["server"]]);
  assert.deepEqual(machine.started, []);
});

test("a setting that names nothing is an error, not a reason to take another", async () => {
  const machine = new MadeMachine({ interpreters: { "/env/python": WHOLE } });
  for (const name of ["path", "interpreter"] as const) {
    const { launch, passedOver } = await locate(wish({ [name]: "/nowhere" }), "/env/python", machine, BUNDLE);
    assert.equal(launch, undefined);
    assert.deepEqual(passedOver, [`the setting \`torchlint.${name}\` names /nowhere, which is no file`]);
  }
});

test("a setting that leads into a workspace without trust does not count", async () => {
  const machine = new MadeMachine({
    interpreters: { "/workspace/bin/python": WHOLE },
    path: { torchlint: ["/bin/torchlint"] },
  });
  const both = wish({ path: "/workspace/torchlint", interpreter: "/workspace/bin/python" });
  const { launch, passedOver } = await locate(both, undefined, machine, BUNDLE);
  assert.equal(launch?.command, "/bin/torchlint");
  assert.deepEqual(machine.started, ["/bin/torchlint"]);
  assert.deepEqual(passedOver, [
    "the setting `torchlint.path` names /workspace/torchlint, in a folder that is not trusted",
    "the setting `torchlint.interpreter` names /workspace/bin/python, in a folder that is not trusted",
  ]);
});

test("the chosen interpreter goes before the PATH", async () => {
  const machine = new MadeMachine({
    interpreters: { "/env/python": WHOLE },
    path: { torchlint: ["/bin/torchlint"] },
  });
  const { launch } = await locate(wish(), "/env/python", machine, BUNDLE);
  assert.equal(launch?.command, "/env/python");
  assert.equal(launch?.args[0], "-c");
  assert.equal(launch?.args.at(-1), "server");
  assert.equal(launch?.description, "torchlint 0.1.0 of /env/python");
});

test("what runs is what was asked, not a program that may pick another Python elsewhere", async () => {
  const machine = new MadeMachine({ interpreters: { "/shims/python": BARE }, path: { python3: ["/shims/python"] } });
  const { launch } = await locate(wish(), undefined, machine, BUNDLE);
  assert.equal(launch?.command, "/real/python");
});

test("the setting of an interpreter goes before the chosen one", async () => {
  const machine = new MadeMachine({ interpreters: { "/set/python": WHOLE, "/env/python": WHOLE } });
  const { launch } = await locate(wish({ interpreter: "/set/python" }), "/env/python", machine, BUNDLE);
  assert.equal(launch?.command, "/set/python");
  assert.deepEqual(machine.started, ["/set/python"]);
});

test("an interpreter without what the server needs is passed over, with what to install", async () => {
  for (const [answer, expected] of [
    [BARE, /^\/env\/python: torchlint is not installed; pip install "torchlint\[lsp\]"/],
    [{ ...WHOLE, pygls: undefined }, /torchlint 0\.1\.0 is installed, but not what its server needs/],
    [{ ...WHOLE, pygls: "1.3.1" }, /not what its server needs: pip install "torchlint\[lsp\]"/],
    ["it does not answer", /it does not answer/],
  ] as const) {
    const machine = new MadeMachine({
      interpreters: { "/env/python": answer },
      path: { torchlint: ["/bin/torchlint"] },
    });
    const { launch, passedOver } = await locate(wish(), "/env/python", machine, BUNDLE);
    assert.equal(launch?.command, "/bin/torchlint");
    assert.match(passedOver[0] ?? "", expected);
  }
});

test("a program on the PATH that cannot serve is passed over", async () => {
  const machine = new MadeMachine({
    path: { torchlint: ["/old/torchlint", "/new/torchlint"] },
    broken: { "/old/torchlint": "the language server needs pygls" },
  });
  const { launch, passedOver } = await locate(wish(), undefined, machine, BUNDLE);
  assert.equal(launch?.command, "/new/torchlint");
  assert.deepEqual(passedOver, ["/old/torchlint: the language server needs pygls"]);
});

test("the bundled server is run by the first Python that it is made for, without the environment's say", async () => {
  const machine = new MadeMachine({
    interpreters: { "/env/python": { python: [3, 9] }, "/usr/bin/python3": { python: [3, 14] }, "/py": BARE },
    path: { python3: ["/usr/bin/python3"], python: ["/usr/bin/python3", "/py"] },
  });
  const { launch, passedOver } = await locate(wish(), "/env/python", machine, BUNDLE);
  assert.deepEqual([launch?.command, launch?.args], ["/py", ["-I", BUNDLE.start, "server"]]);
  assert.deepEqual(passedOver.slice(2), [
    "/env/python, for the bundled server: is Python 3.9; torchlint needs 3.10 or newer",
    "/usr/bin/python3, for the bundled server: is Python 3.14; the bundle is made for 3.11, 3.12",
  ]);
});

test("the bundled server is taken although others are there, where it is asked for", async () => {
  const machine = new MadeMachine({ interpreters: { "/env/python": WHOLE }, path: { torchlint: ["/bin/torchlint"] } });
  const { launch } = await locate(wish({ importStrategy: "useBundled" }), "/env/python", machine, BUNDLE);
  assert.deepEqual(launch?.args, ["-I", BUNDLE.start, "server"]);
});

test("where nothing can be started, it is said of each why", async () => {
  const { launch, passedOver } = await locate(wish(), undefined, new MadeMachine({}), BUNDLE);
  assert.equal(launch, undefined);
  assert.deepEqual(passedOver, [
    "there is no torchlint on the PATH",
    "no Python to run the bundled server: none is chosen, and none is on the PATH",
  ]);
  const without = await locate(wish(), undefined, new MadeMachine({}), undefined);
  assert.deepEqual(without.passedOver.at(-1), "this build of the extension brings no server along");
});
