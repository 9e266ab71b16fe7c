"""Programs by number: a kernel, rewritten and laid out at random, always the same for the same number."""

from __future__ import annotations

import ast
import copy
import re
import warnings
from functools import cache
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.spellings.imports import import_names
from tests.spellings.layout import laid_out
from tests.spellings.rewrites import Rewriter

_NAMES = ("\u03b8", "\u6570\u636e", "\u00e9t\u00e9", "x_", "_", "print_", "out", "inplace", "data")
_SOME_REWRITES = 8


class Program(NamedTuple):
    """A program, and the rule that finds something in it (none, if it is harmless), or what is unusual about it."""

    name: str
    code: str


@cache
def kernels() -> tuple[Program, ...]:
    """Programs in their plain spelling."""
    return _read("kernels.txt")


@cache
def unusual() -> tuple[Program, ...]:
    """Programs that were misread once."""
    return _read("unusual.txt")


def _read(file: str) -> tuple[Program, ...]:
    parts = re.split(r"^#[ ]?", Path(__file__).with_name(file).read_text("utf-8"), flags=re.M)[1:]
    return tuple(Program(*part.split("\n", 1)) for part in parts)


def plain(kernel: Program) -> bytes:
    """A kernel as it is written, with what it imports."""
    return f"import torch\nimport lightning\n\n{kernel.code}".encode()


def program(number: int) -> bytes:
    """The program of a number."""
    random = Random(number)
    kernel = random.choice(kernels())
    tree = ast.parse(kernel.code)
    for _ in range(random.randrange(_SOME_REWRITES)):
        tree = _tried(tree, random)
    if random.random() < 0.3:
        _rename(tree, random)
    import_names(tree, random)
    text = ast.unparse(ast.fix_missing_locations(tree))
    for _ in range(3):
        data = laid_out(text, random)
        if _is_python(data):
            return data
    return text.encode()


def _tried(tree: ast.Module, random: Random) -> ast.Module:
    """A tree with one rewrite more, if that is still Python."""
    changed = copy.deepcopy(tree)
    Rewriter(changed, random).rewrite()
    text = ast.unparse(ast.fix_missing_locations(changed))
    return ast.parse(text) if _is_python(text.encode()) else tree


def _is_python(data: bytes) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(data, "program.py", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def _rename(tree: ast.Module, random: Random) -> None:
    """Give a local name another one."""
    names = sorted(
        {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    )
    if not names:
        return
    old, new = random.choice(names), random.choice(_NAMES)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == old:
            node.id = new
        elif isinstance(node, ast.arg) and node.arg == old:
            node.arg = new
