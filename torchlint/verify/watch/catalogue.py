"""The checks of watched runs, as their modules describe themselves. torch need not be installed."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torchlint.finding import Category, Meta
from torchlint.verify.launch import BOOT

FOLDER = BOOT / "torchlint_probe" / "checks"
_NO_CHECKS = {"__init__", "check"}


@dataclass(frozen=True)
class CheckInfo:
    """A check. `documentation` states the question, when the answer is yes, and the source."""

    name: str
    code: str
    is_on: bool
    documentation: str

    @property
    def meta(self) -> Meta:
        """The description in the form of a rule's."""
        return Meta(self.name, self.code, Category.SUSPICIOUS, self.documentation, preview=not self.is_on)


@cache
def checks() -> tuple[CheckInfo, ...]:
    """All checks, by code."""
    paths = (path for path in FOLDER.glob("*.py") if path.stem not in _NO_CHECKS and not path.stem.startswith("_"))
    return tuple(sorted(map(_info, paths), key=lambda info: (info.code, info.name)))


def consequence(name: str) -> str:
    """The consequence of a problem in training, as its check states it; empty where no check has the name."""
    check = next((check for check in checks() if check.name == name), None)
    return "" if check is None else check.documentation.partition("\n\n")[0].replace("\n", " ")


def _info(path: Path) -> CheckInfo:
    tree = ast.parse(path.read_bytes())
    values = {
        target.id: item.value.value
        for kind in tree.body
        if isinstance(kind, ast.ClassDef)
        for item in kind.body
        if isinstance(item, ast.Assign) and isinstance(item.value, ast.Constant)
        for target in item.targets
        if isinstance(target, ast.Name)
    }
    name, code, is_on = values["name"], values["code"], values.get("is_on", True)
    return CheckInfo(str(name), str(code), bool(is_on), ast.get_docstring(tree) or "")
