/** The machine that the extension runs on: its files, its PATH, and short runs of programs. */

import { execFile } from "node:child_process";
import { accessSync, constants, readFileSync, realpathSync, statSync } from "node:fs";
import * as path from "node:path";

import type { Bundle, Environment, Machine } from "./locate";

const PATIENCE = 15_000;
const NOT_PYTHON = "it gives an answer that is not Python's";
/** Runs on any Python, old ones too, so that an old one can be named. */
const PROBE = `
import json, sys
sys.path[:] = [entry for entry in sys.path if entry]
try:
    from importlib.metadata import version
except ImportError:
    version = None
def of(name):
    try:
        return version(name)
    except Exception:
        return None
answer = {"executable": sys.executable, "python": list(sys.version_info[:2])}
print(json.dumps(dict(answer, torchlint=of("torchlint"), pygls=of("pygls"))))
`;

export class LocalMachine implements Machine {
  /** Programs run in `folder`, which is the extension's own; none is taken from the PATH that lies in `avoided`. */
  constructor(
    private readonly folder: string,
    private readonly avoided: readonly string[],
    private readonly searchPath: string = process.env["PATH"] ?? "",
  ) {}

  isFile(file: string): boolean {
    return path.isAbsolute(file) && isFile(file);
  }

  isAvoided(file: string): boolean {
    const places = [path.dirname(file), file].flatMap((place) => [place, realPath(place)]);
    return this.avoided.some((folder) =>
      [folder, realPath(folder)].some((top) => places.some((place) => isInside(place, top))),
    );
  }

  onPath(name: string): string[] {
    const program = process.platform === "win32" ? `${name}.exe` : name;
    return this.searchPath
      .split(path.delimiter)
      .filter((folder) => path.isAbsolute(folder))
      .map((folder) => path.join(folder, program))
      .filter((file) => isProgram(file) && !this.isAvoided(file));
  }

  async probe(interpreter: string): Promise<Environment | string> {
    const { code, output, errors } = await this.run(interpreter, ["-c", PROBE]);
    return code === 0 ? environmentOf(output) : reason(code, errors);
  }

  async tryServer(torchlint: string): Promise<string> {
    const { code, errors } = await this.run(torchlint, ["server"]);
    return code === 0 ? "" : reason(code, errors);
  }

  private run(command: string, args: string[]): Promise<{ code: number | string; output: string; errors: string }> {
    return new Promise((resolve) => {
      const options = { cwd: this.folder, timeout: PATIENCE, windowsHide: true };
      const child = execFile(command, args, options, (error, output, errors) => {
        const code = error ? (error.killed ? "it does not answer" : (error.code ?? error.message)) : 0;
        resolve({ code, output, errors });
      });
      child.stdin?.on("error", () => undefined); // it may be gone before its input ends
      child.stdin?.end();
    });
  }
}

/** The bundle in the folder of the extension, if this build has one. */
export function bundleIn(extension: string): Bundle | undefined {
  const folder = path.join(extension, "bundled");
  try {
    const made: unknown = JSON.parse(readFileSync(path.join(folder, "bundle.json"), "utf8"));
    const { pythons } = made as { pythons: string[] };
    return { start: path.join(folder, "start.py"), pythons };
  } catch {
    return undefined;
  }
}

function environmentOf(output: string): Environment | string {
  try {
    const answer = JSON.parse(output.trim().split("\n").at(-1) ?? "") as Record<string, unknown>;
    const [major, minor] = answer["python"] as unknown[];
    const executable = text(answer["executable"]);
    if (!executable || typeof major !== "number" || typeof minor !== "number") {
      return NOT_PYTHON;
    }
    return { executable, python: [major, minor], torchlint: text(answer["torchlint"]), pygls: text(answer["pygls"]) };
  } catch {
    return NOT_PYTHON;
  }
}

function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function reason(code: number | string, errors: string): string {
  const last = errors.trim().split("\n").at(-1)?.trim();
  return last || (typeof code === "number" ? `it ends with exit code ${code}` : code);
}

function isFile(file: string): boolean {
  try {
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return isFile(file);
  } catch {
    return false;
  }
}

function realPath(place: string): string {
  try {
    return realpathSync(place);
  } catch {
    return path.resolve(place);
  }
}

function isInside(place: string, folder: string): boolean {
  const way = path.relative(folder, place);
  return way === "" || (!way.startsWith(`..${path.sep}`) && way !== ".." && !path.isAbsolute(way));
}
