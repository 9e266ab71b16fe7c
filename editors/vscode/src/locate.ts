/** Which torchlint is started: the one of the setting, of the chosen interpreter, of the PATH, or the bundled one. */

export type ImportStrategy = "fromEnvironment" | "useBundled";

/** What the user wants; empty strings are settings that are not set. */
export interface Wish {
  path: string;
  interpreter: string;
  importStrategy: ImportStrategy;
}

/** What an interpreter says of its environment; versions are undefined for what is not installed. */
export interface Environment {
  /** The program itself: that it was called by may be one that picks a Python by the folder it is called in. */
  executable: string;
  python: readonly [number, number];
  torchlint?: string | undefined;
  pygls?: string | undefined;
}

/** The server that the extension brings along, and the Pythons that can run it, as "3.12". */
export interface Bundle {
  start: string;
  pythons: readonly string[];
}

/** The machine that the extension runs on. */
export interface Machine {
  isFile(path: string): boolean;
  /** Whether a path leads into a workspace that is not trusted, of which nothing is run. */
  isAvoided(path: string): boolean;
  /** The programs of a name on the PATH, by absolute path. */
  onPath(name: string): string[];
  /** Asks an interpreter; a text says why there is no answer. */
  probe(interpreter: string): Promise<Environment | string>;
  /** Starts `torchlint server` without input; an empty text if it can serve, or else why not. */
  tryServer(torchlint: string): Promise<string>;
}

export interface Launch {
  command: string;
  args: string[];
  /** For the status item and the log. */
  description: string;
}

export interface Located {
  launch?: Launch;
  /** Why others were passed over, in the order in which they were looked at. */
  passedOver: string[];
}

/** Starts torchlint of an environment as its command does: nothing is imported from the working folder. */
const START = "import sys; sys.path[:] = filter(None, sys.path); from torchlint.cli import main; main()";
/** The settings that name a program. */
const SETTINGS = ["path", "interpreter"] as const;
const OLDEST_PYTHON = [3, 10] as const;
const OLDEST_PYGLS = 2;

/** The server to start. `chosen` is the interpreter that was chosen for the workspace, if there is one. */
export async function locate(
  wish: Wish,
  chosen: string | undefined,
  machine: Machine,
  bundle: Bundle | undefined,
): Promise<Located> {
  const passedOver: string[] = [];
  const allowed = allowedOf(wish, machine, passedOver);
  const nowhere = SETTINGS.filter((name) => allowed[name] && !machine.isFile(allowed[name]));
  if (nowhere.length > 0) {
    passedOver.push(...nowhere.map((name) => `the setting \`torchlint.${name}\` names ${wish[name]}, which is no file`));
    return { passedOver };
  }
  const launch = allowed.path
    ? ofProgram(allowed.path, "of the setting `torchlint.path`")
    : await search(allowed, allowed.interpreter || chosen, machine, bundle, passedOver);
  return launch ? { launch, passedOver } : { passedOver };
}

/** The wish without what must not be run. */
function allowedOf(wish: Wish, machine: Machine, passedOver: string[]): Wish {
  const avoided = SETTINGS.filter((name) => wish[name] && machine.isAvoided(wish[name]));
  for (const name of avoided) {
    passedOver.push(`the setting \`torchlint.${name}\` names ${wish[name]}, in a folder that is not trusted`);
  }
  return { ...wish, ...Object.fromEntries(avoided.map((name) => [name, ""])) };
}

async function search(
  wish: Wish,
  interpreter: string | undefined,
  machine: Machine,
  bundle: Bundle | undefined,
  passedOver: string[],
): Promise<Launch | undefined> {
  if (wish.importStrategy === "fromEnvironment") {
    const found =
      (interpreter && (await inEnvironment(interpreter, machine, passedOver))) || (await onPath(machine, passedOver));
    if (found) {
      return found;
    }
  }
  return bundled(interpreter, machine, bundle, passedOver);
}

async function inEnvironment(interpreter: string, machine: Machine, passedOver: string[]): Promise<Launch | undefined> {
  const answer = await machine.probe(interpreter);
  const problem = typeof answer === "string" ? answer : missing(answer);
  if (problem || typeof answer === "string") {
    passedOver.push(`${interpreter}: ${problem}`);
    return undefined;
  }
  return {
    command: answer.executable,
    args: ["-c", START, "server"],
    description: `torchlint ${answer.torchlint} of ${answer.executable}`,
  };
}

/** What an environment lacks to serve; empty if nothing. */
function missing(environment: Environment): string {
  if (!environment.torchlint) {
    return 'torchlint is not installed; pip install "torchlint[lsp]" would make it the one to use';
  }
  if (!environment.pygls || Number.parseInt(environment.pygls) < OLDEST_PYGLS) {
    return `torchlint ${environment.torchlint} is installed, but not what its server needs: pip install "torchlint[lsp]"`;
  }
  return "";
}

async function onPath(machine: Machine, passedOver: string[]): Promise<Launch | undefined> {
  const programs = machine.onPath("torchlint");
  if (programs.length === 0) {
    passedOver.push("there is no torchlint on the PATH");
  }
  for (const program of programs) {
    const problem = await machine.tryServer(program);
    if (!problem) {
      return ofProgram(program, "on the PATH");
    }
    passedOver.push(`${program}: ${problem}`);
  }
  return undefined;
}

function ofProgram(program: string, from: string): Launch {
  return { command: program, args: ["server"], description: `${program}, ${from}` };
}

async function bundled(
  interpreter: string | undefined,
  machine: Machine,
  bundle: Bundle | undefined,
  passedOver: string[],
): Promise<Launch | undefined> {
  if (!bundle) {
    passedOver.push("this build of the extension brings no server along");
    return undefined;
  }
  const pythons = [...(interpreter ? [interpreter] : []), ...machine.onPath("python3"), ...machine.onPath("python")];
  for (const python of new Set(pythons)) {
    const answer = await machine.probe(python);
    const problem = typeof answer === "string" ? answer : unsupported(answer, bundle);
    if (!problem && typeof answer !== "string") {
      const description = `the bundled torchlint, run by ${answer.executable}`;
      return { command: answer.executable, args: ["-I", bundle.start, "server"], description };
    }
    passedOver.push(`${python}, for the bundled server: ${problem}`);
  }
  if (pythons.length === 0) {
    passedOver.push("no Python to run the bundled server: none is chosen, and none is on the PATH");
  }
  return undefined;
}

function unsupported({ python: [major, minor] }: Environment, bundle: Bundle): string {
  if (major < OLDEST_PYTHON[0] || (major === OLDEST_PYTHON[0] && minor < OLDEST_PYTHON[1])) {
    return `is Python ${major}.${minor}; torchlint needs ${OLDEST_PYTHON.join(".")} or newer`;
  }
  return bundle.pythons.includes(`${major}.${minor}`)
    ? ""
    : `is Python ${major}.${minor}; the bundle is made for ${bundle.pythons.join(", ")}`;
}
