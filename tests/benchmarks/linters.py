"""The programs that are compared, as command lines: torchlint, ruff, ty, TorchFix, and single processes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.benchmarks.corpus import Unavailable, pip
from tests.benchmarks.costs import Command

SINGLE = Path(__file__).with_name("single.py")
TORCHFIX = "torchfix==0.7.0"


# -- torchlint ------------------------------------------------------------------------------------------


@cache
def _help() -> str:
    """The text of `torchlint check` about its options."""
    line = [sys.executable, "-m", "torchlint", "check", "--help"]
    return subprocess.run(line, check=True, capture_output=True, encoding="utf-8").stdout


def has_cache() -> bool:
    return "--no-cache" in _help()


def torchlint(tree: Path, cwd: Path, *, cached: bool = False) -> Command:
    """torchlint without a cache, or with the one below the folder it runs in."""
    options: list[str | Path] = ["--isolated"]
    if has_cache() and not cached:
        options.append("--no-cache")
    if cached and "--cache-dir" in _help():
        options += ["--cache-dir", cwd / "torchlint-cache"]
    return Command([sys.executable, "-m", "torchlint", "check", *options, tree], cwd)


# -- ruff, ty and TorchFix ---------------------------------------------------------------------------------


def ruff(tree: Path, cwd: Path) -> Command | None:
    """ruff's default rules without a cache; None where it is not installed."""
    program = _program("ruff")
    return Command([program, "check", "--no-cache", "--isolated", tree], cwd) if program else None


def ty(tree: Path, cwd: Path) -> Command | None:
    """ty, which finds no torch beside the files: it follows no more than torchlint; None where it is not installed."""
    program = _program("ty")
    empty = cwd / "no-packages"
    empty.mkdir(exist_ok=True)
    line: list[str | Path] = ["check", "--quiet", "--project", empty, "--python", sys.base_prefix, tree]
    return Command([program, *line], cwd) if program else None


@cache
def _program(name: str) -> str | None:
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name)


def torchfix(tree: Path, cwd: Path, cache_folder: Path, say: Callable[[str], object]) -> Command | None:
    """TorchFix's default rules, from an environment of its own that is made once; None where it cannot be had."""
    environment = cache_folder / TORCHFIX.replace("==", "-")
    program = environment / "bin" / "torchfix"
    try:
        if not program.exists():
            say(f"installing {TORCHFIX}")
            subprocess.run([sys.executable, "-m", "venv", environment], check=True, capture_output=True)
            pip("install", "--quiet", TORCHFIX, python=environment / "bin" / "python")
    except (Unavailable, subprocess.CalledProcessError) as error:
        say(f"TorchFix is left out, it cannot be installed: {error}")
        return None
    return Command([program, tree], cwd)


def versions() -> str:
    """The versions of everything that may be compared."""
    said = [f"Python {sys.version.split()[0]}", _said(sys.executable, "-m", "torchlint")]
    libcst = "from importlib.metadata import version; print('LibCST', version('libcst'))"
    said.append(_said(sys.executable, "-c", libcst, version=()))
    said += [_said(program) for program in map(_program, ("ruff", "ty")) if program]
    return ", ".join(said)


def _said(*line: str, version: tuple[str, ...] = ("--version",)) -> str:
    return subprocess.run([*line, *version], check=True, capture_output=True, encoding="utf-8").stdout.strip()


# -- single processes -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Triage:
    """Which files of a tree are parsed, and which default rules want them."""

    rules: tuple[str, ...]
    files: int
    lines: int
    wanted: tuple[tuple[Path, int, tuple[str, ...]], ...]
    """Path, lines, and the names of the rules."""

    @property
    def paths(self) -> list[Path]:
        return [path for path, _, _ in self.wanted]


def triage(files: Iterable[Path], work: Path) -> Triage:
    """Asks a process of its own: what this one holds would count as memory of those that it starts."""
    command = single("triage", files, work)
    found = json.loads(subprocess.run(command.line, check=True, capture_output=True, encoding="utf-8").stdout)
    wanted = tuple((Path(path), lines, tuple(names)) for path, lines, names in found["wanted"])
    return Triage(tuple(found["rules"]), found["files"], found["lines"], wanted)


def single(kind: str, files: Iterable[Path], work: Path) -> Command:
    """`parse`, `lint` or `triage` of these files in one process."""
    listing = work / f"{kind}-{len(list(work.glob('*.list')))}.list"
    listing.write_text("".join(f"{file}\n" for file in files), "utf-8")
    return Command([sys.executable, SINGLE, kind, listing], work, frozenset({0}), prints_cost=True)
