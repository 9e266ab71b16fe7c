"""Assignments to `PYTHONHASHSEED` that come too late."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import definitions
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_NAME = "PYTHONHASHSEED"
_STARTS = LazyPattern(
    r"(^|\.)(exec[lv]\w*|spawn\w*|posix_spawn\w*|fork\w*|Popen|Process|Pool|check_call|check_output|launch\w*|run_\w*)$"
)
"""Functions that start another process, which inherits the environment variable."""


class LateSeed(NamedTuple):
    """The code sets the variable at `site`, in a process that started without it."""

    site: Site


class LateHashSeed(Rule):
    """`PYTHONHASHSEED` has no effect after Python has started.

    ## What it does
    Finds assignments to `os.environ["PYTHONHASHSEED"]` in functions that start no other process. Includes `setdefault`,
    `update` and `os.putenv`.

    ## Why is this bad?
    Python reads the variable once, when it starts. The hashes of strings still differ in each run, and so does the
    order of sets. The program looks seeded, but results that depend on this order are not reproducible.

    ## Example
    ```python
    import os
    import torch

    def set_seed(seed):
        os.environ["PYTHONHASHSEED"] = str(seed)
        torch.manual_seed(seed)
    ```

    Use instead:
    ```python
    import torch

    def set_seed(seed):
        torch.manual_seed(seed)  # and start by: PYTHONHASHSEED=0 python train.py
    ```

    ## References
    - [PYTHONHASHSEED](https://docs.python.org/3/using/cmdline.html#envvar-PYTHONHASHSEED)
    """

    code = "TL602"
    category = Category.SUSPICIOUS
    preview = True
    triggers = ((b"PYTHONHASHSEED",), (b"environ", b"putenv"))

    def ask(self) -> Iterator[LateSeed]:
        for node in self.model.tree.of_type(ast.Assign, ast.Call):
            if self._sets(node) and not self._starts_processes(node):
                yield LateSeed(python_ast.site_of(node))

    def _sets(self, node: ast.Assign | ast.Call) -> bool:
        if isinstance(node, ast.Assign):
            return any(
                isinstance(target, ast.Subscript) and self._is_name(target.slice) and self._is_environment(target.value)
                for target in node.targets
            )
        name = self.model.definitions.named(node.func)
        if name in ("os.putenv", "os.environ.setdefault"):
            return bool(node.args) and self._is_name(node.args[0])
        keys = [key for item in node.args if isinstance(item, ast.Dict) for key in item.keys if key is not None]
        is_key = any(item.arg == _NAME for item in node.keywords) or any(self._is_name(key) for key in keys)
        return name == "os.environ.update" and is_key

    def _is_name(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Constant) and node.value == _NAME

    def _is_environment(self, node: ast.expr) -> bool:
        return self.model.definitions.named(node) == "os.environ"

    def _starts_processes(self, node: ast.AST) -> bool:
        """Whether the function or the module also starts a process or restores the old value."""
        function = self.model.definitions.function_around(node)
        if function not in self._starting:
            self._starting[function] = self._starts_any(function)
        return self._starting[function]

    @cached_property
    def _starting(self) -> dict[definitions.FunctionInfo | None, bool]:
        return {}

    def _starts_any(self, function: definitions.FunctionInfo | None) -> bool:
        scope = function.node if function is not None else self.model.tree.module
        calls = (item for item in python_ast.walk(scope) if isinstance(item, ast.Call))
        names = [self.model.definitions.named(call.func) for call in calls]
        return any(_STARTS.search(name) or name.startswith("subprocess.") for name in names)

    def report_LateSeed(self, late: LateSeed) -> None:
        self.report(
            late.site,
            f"`{_NAME}` is read when Python starts: setting it here does not change the hashes of this process",
            help=f"set it in the shell: `{_NAME}=0 python ...`",
        )
