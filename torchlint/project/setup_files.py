"""The releases of PyTorch that setuptools' files ask for; None where they do not name `torch`, or cannot be read.

No file is run: of a setup.py only what it writes out as lists of strings is known.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from configparser import Error as ConfigError
from configparser import RawConfigParser
from contextlib import suppress

from torchlint.files.python import UNREADABLE, python_tree
from torchlint.pytorch.releases import Releases, required
from torchlint.syntax.nesting import may_be_too_deep
from torchlint.syntax.python_ast import called_name, walk

_NEEDED = ("install_requires", "extras_require")
"""Keywords of `setup()` that name requirements: in any case, or else in some."""


def of_setup_cfg(text: str) -> Releases | None:
    parser = RawConfigParser(strict=False)
    with suppress(ConfigError):
        parser.read_string(text)
        needed = parser.get("options", "install_requires", fallback="")
        extras = dict(parser.items("options.extras_require")) if parser.has_section("options.extras_require") else {}
        return required(_entries(needed)) or required(item for extra in extras.values() for item in _entries(extra))
    return None


def _entries(value: str | None) -> list[str]:
    """A list of setuptools: one entry a line, or between semicolons if there is one line only."""
    lines = (value or "").strip()
    return lines.splitlines() if "\n" in lines else lines.split(";")


def of_setup_py(text: str) -> Releases | None:
    """Reads a setup.py that lists its requirements, in the call or under a name."""
    if may_be_too_deep(text.encode()):
        return None
    with suppress(*UNREADABLE):
        tree = python_tree(text)
        written = {name: value for node in walk(tree) for name, value in _assigned(node)}
        calls = [node for node in walk(tree) if isinstance(node, ast.Call) and called_name(node) == "setup"]
        for keyword in _NEEDED:
            given = [item.value for call in calls for item in call.keywords if item.arg == keyword]
            found = required(text for value in given for text in _literals(value, written))
            if found is not None:
                return found
    return None


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The names that a statement sets, and what to."""
    if isinstance(node, ast.Assign):
        yield from ((target.id, node.value) for target in node.targets if isinstance(target, ast.Name))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        yield node.target.id, node.value


def _literals(given: ast.expr, written: Mapping[str, ast.expr]) -> Iterator[str]:
    """The strings in a list that is written out, in those of a dictionary, or in what a name stands for."""
    stack, followed = [given], set()
    while stack:
        value = stack.pop()
        if isinstance(value, ast.Name) and value.id in written and value.id not in followed:
            followed.add(value.id)
            stack.append(written[value.id])
        elif isinstance(value, ast.Dict):
            stack += value.values
        elif isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
            stack += (value.left, value.right)
        elif isinstance(value, (ast.List, ast.Tuple, ast.Set)):
            constants = [item.value for item in value.elts if isinstance(item, ast.Constant)]
            yield from (constant for constant in constants if isinstance(constant, str))
