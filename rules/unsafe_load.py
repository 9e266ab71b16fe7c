"""Checkpoints that may run code when they are loaded."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule, edits
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_LOADS = frozenset({"torch.load", "torch.serialization.load"})
_SAFE_SINCE = (2, 6)
"""The first release whose `torch.load` is safe by default."""
_PICKLE_MODULE = 2
"""The position of the unpickling module among the arguments."""


class Unpickled(NamedTuple):
    """The `torch.load` at `site` unpickles any object, because an argument (`is_explicit`) or the default allows it."""

    site: Site
    is_explicit: bool


class UnsafeLoad(Rule):
    """`torch.load` unpickles any object, so an untrusted checkpoint may run code.

    ## What it does
    Finds `torch.load(..., weights_only=False)`. Also finds `torch.load` without `weights_only` where the project
    supports a PyTorch older than 2.6, according to its pyproject.toml or requirements.txt. Newer releases load only
    weights by default.

    Not reported when:

    - The call passes a `pickle_module`, which is a deliberate choice.
    - The call is `torch.jit.load`, which reads a different format.

    ## Why is this bad?
    Unpickling calls any function that the file names. A checkpoint from the internet can read keys, delete files or
    open a shell on the training machine. This rule is off by default, because the risk depends on where the checkpoints
    come from.

    ## Example
    ```python
    import torch

    def resume(model, path):
        model.load_state_dict(torch.load(path, weights_only=False))
    ```

    Use instead:
    ```python
    import torch

    def resume(model, path):
        model.load_state_dict(torch.load(path, weights_only=True))
    ```

    ## Fix safety
    The fix is unsafe, because `torch.load` then refuses a checkpoint that holds more than tensors and plain containers.

    ## References
    - [torch.load](https://docs.pytorch.org/docs/stable/generated/torch.load.html)
    """

    code = "TL803"
    category = Category.PEDANTIC
    aliases = ("TOR102",)
    triggers = ((b"torch",), (b"load",))

    def ask(self) -> Iterator[Unpickled]:
        for call in self.model.tree.of_type(ast.Call):
            if self.model.definitions.qualified(python_ast.dotted(call.func), call) in _LOADS:
                option = next((item.value for item in call.keywords if item.arg == "weights_only"), None)
                if option is not None and python_ast.is_literal(option, False):
                    yield Unpickled(python_ast.site_of(call), is_explicit=True)
                elif option is None and self._is_unsafe_by_default(call):
                    yield Unpickled(python_ast.site_of(call), is_explicit=False)

    def _is_unsafe_by_default(self, call: ast.Call) -> bool:
        """Whether a call without the option unpickles any object in some release that the project supports."""
        keywords = {item.arg for item in call.keywords}
        is_open = None in keywords or any(isinstance(item, ast.Starred) for item in call.args)
        has_own = "pickle_module" in keywords or len(call.args) > _PICKLE_MODULE
        return not is_open and not has_own and self.model.torch.lowest < _SAFE_SINCE

    def report_Unpickled(self, answer: Unpickled) -> None:
        why = "with `weights_only=False`" if answer.is_explicit else "before PyTorch 2.6"
        self.report(
            answer.site,
            f"`torch.load` {why} runs any code that the file contains",
            help="pass `weights_only=True`, unless you trust the source of the file",
            fix=self._fix(answer),
        )

    def _fix(self, answer: Unpickled) -> edits.Change | None:
        call = self.model.tree.node(answer.site)
        assert isinstance(call, ast.Call)
        option = next((item.value for item in call.keywords if item.arg == "weights_only"), None)
        last = option or max(python_ast.arguments(call), key=lambda node: (node.lineno, node.col_offset), default=None)
        written = self.nodes.at(python_ast.site_of(last)) if self.nodes is not None and last is not None else None
        if written is None or last is None:
            return None
        if option is None and not isinstance(last, (ast.Name, ast.Attribute, ast.Constant, ast.Call)):
            return None
        edit = edits.Append(written, ", weights_only=True") if option is None else edits.Replace(written, "True")
        return edits.Change("pass `weights_only=True`", [edit])
