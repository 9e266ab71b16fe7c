"""The code that is measured: pinned wheels, the part of them that trains, samples, copies and long files."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path

PINS = (
    *("accelerate==1.15.0", "diffusers==0.42.1", "lightning==2.6.6", "monai==1.6.1", "stable-baselines3==2.9.2"),
    *("timm==1.0.31", "torch-geometric==2.8.1", "torchvision==0.29.1", "transformers==5.23.0", "trl==1.16.0"),
    "ultralytics==8.4.190",
)
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "torchlint-benchmarks"
TRAINING = b".backward("
"""The content that makes a file part of the training subset."""
SAMPLE = 10
"""One file of so many is in the sample that is copied so many times: the copies are as many as all files."""

FIXTURES = Path(__file__).parents[2] / "fixtures"
PART = 17
"""One definition of so many in the fixtures' good files is about 500 lines."""


class Unavailable(Exception):
    """A package that cannot be had; the message is pip's."""


def pip(*arguments: str | Path, python: str | Path = sys.executable) -> None:
    """Run pip; raises `Unavailable`."""
    line = [python, "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(line, capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode:
        raise Unavailable((done.stderr.strip() or done.stdout.strip())[-500:])


# -- pinned wheels --------------------------------------------------------------------------------------


def fetched(cache: Path, pins: Iterable[str] = PINS, say: Callable[[str], object] = lambda text: None) -> Path:
    """A folder with the Python files of the pinned wheels, a folder for each; raises `Unavailable`.

    What the cache holds already is not fetched again. Nothing but `.py` files is unpacked, and nothing is run.
    """
    digest = hashlib.sha256(" ".join(pins).encode()).hexdigest()[:8]
    tree = cache / f"tree-{digest}"
    for pin in pins:
        folder = tree / pin.replace("==", "-")
        if not folder.is_dir():
            _unpack(_wheel(cache / "wheels", pin, say), folder)
    return tree


def _wheel(wheels: Path, pin: str, say: Callable[[str], object]) -> Path:
    name = pin.replace("-", "_").replace("==", "-")
    if not list(wheels.glob(f"{name}-*.whl")):
        say(f"downloading {pin}")
        pip("download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", wheels, pin)
    found = sorted(wheels.glob(f"{name}-*.whl"))
    if not found:
        raise Unavailable(f"pip has downloaded {pin}, but no {name}-*.whl")
    return found[0]


def _unpack(wheel: Path, folder: Path) -> None:
    """Unpack beside the folder and rename: what is there is whole."""
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(partial, [name for name in archive.namelist() if name.endswith(".py")])
    partial.rename(folder)


# -- parts of a tree ------------------------------------------------------------------------------------


def python_files(tree: Path) -> list[Path]:
    return sorted(path for path in tree.rglob("*.py") if path.is_file())


def copied(files: Iterable[Path], tree: Path, folder: Path) -> Path:
    """A new folder that holds these files of a tree, in their places."""
    folder.mkdir(parents=True)
    for file in files:
        copy = folder / file.relative_to(tree)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    return folder


def training(files: Iterable[Path]) -> list[Path]:
    """The files that call a `backward`."""
    return [file for file in files if TRAINING in file.read_bytes()]


def sample(files: list[Path]) -> list[Path]:
    """Every tenth file."""
    return files[::SAMPLE]


# -- long files -----------------------------------------------------------------------------------------


def long_file(lines: int) -> str:
    """Training code of about so many lines: functions and classes of the fixtures, again under other names."""
    imports, definitions = _parts()
    renamed = (_renamed(code, names, copy) for copy in count(1) for code, names in definitions)
    text = "".join(f"{line}\n" for line in imports)
    while text.count("\n") < lines:
        text += f"\n\n{next(renamed)}\n"
    return text


def _parts() -> tuple[list[str], list[tuple[str, dict[str, str]]]]:
    """The imports of the fixtures' good files, and of their definitions every seventeenth, with names for all."""
    imports: list[str] = []
    definitions: list[tuple[str, dict[str, str]]] = []
    for number, path in enumerate(sorted(FIXTURES.glob("*/good.py"))):
        text = path.read_text("utf-8")
        body = ast.parse(text).body
        defined = [node for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
        names = {node.name: f"{node.name}_{number}" for node in defined}
        imports += [ast.unparse(node) for node in body if _is_import(node)]
        definitions += [(code, names) for code in _codes(text, defined)]
    return list(dict.fromkeys(imports)), definitions[::PART]


def _is_import(node: ast.stmt) -> bool:
    future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
    return isinstance(node, ast.Import | ast.ImportFrom) and not future


def _codes(text: str, definitions: Iterable[ast.FunctionDef | ast.ClassDef]) -> Iterator[str]:
    """The lines of each definition, decorators included."""
    lines = text.splitlines()
    for node in definitions:
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        yield "\n".join(lines[first - 1 : node.end_lineno])


def _renamed(code: str, names: dict[str, str], copy: int) -> str:
    """The code with other names for what its file defines; `model.train()` stays."""
    pattern = rf"(?<![.\w])(?:{'|'.join(map(re.escape, names))})\b"
    return re.sub(pattern, lambda match: f"{names[match[0]]}_{copy}", code)
