"""Softmax without its dimension."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule, edits
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import names
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_FUNCTIONS = {f"torch.nn.functional.{name}": 1 for name in ("softmax", "log_softmax", "softmin")}
_MODULES = {f"torch.nn.{name}": 0 for name in ("Softmax", "LogSoftmax", "Softmin")}
_POSITIONS = _FUNCTIONS | _MODULES | {f"torch.nn.modules.activation.{name.rpartition('.')[2]}": 0 for name in _MODULES}
"""Where the dimension stands among the arguments."""


class NoDimension(NamedTuple):
    """The call of `name` at `site` does not say over which dimension."""

    site: Site
    name: str


class ImplicitSoftmaxDim(Rule):
    """A softmax does not say over which dimension: of three it takes the first.

    ## What it does
    Finds `F.softmax`, `F.log_softmax`, `F.softmin`, and `nn.Softmax` and its kin, without `dim`. In tests such modules
    are often there to be found or replaced only, and are not reported.

    ## Why is this bad?
    PyTorch then picks a dimension, and warns: dimension 0 of tensors with one or three dimensions, else dimension 1.
    For sequences and attention, `(batch, length, classes)`, that is the batch: what one example gets depends on the
    others that happen to be beside it, and evaluation with another batch size gives other results.

    ## Example
    ```python
    import torch.nn.functional as F

    def attend(scores, values):
        return F.softmax(scores) @ values
    ```

    Use instead:
    ```python
    import torch.nn.functional as F

    def attend(scores, values):
        return F.softmax(scores, dim=-1) @ values
    ```

    ## Fix safety
    `dim=-1` is unsafe: it is the usual one, but it may not be the one that was taken.

    ## References
    - [torch.nn.functional.softmax](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.softmax.html)
    - [torch.nn.Softmax](https://docs.pytorch.org/docs/stable/generated/torch.nn.Softmax.html)
    """

    code = "TL703"
    category = Category.SUSPICIOUS
    preview = True
    triggers = ((b"oftm",), (b"torch",))

    @classmethod
    def may_fire(cls, data: bytes) -> bool:
        return super().may_fire(data) and _CALL.search(data) is not None

    def ask(self) -> Iterator[NoDimension]:
        is_test = self.model.is_test
        for call in self.model.tree.of_type(ast.Call):
            name = names.imported(call.func, self.model.definitions)
            position = None if is_test and name.rpartition(".")[2][:1].isupper() else _POSITIONS.get(name)
            if position is not None and _lacks_dimension(call, position):
                yield NoDimension(python_ast.site_of(call), name)

    def report_NoDimension(self, answer: NoDimension) -> None:
        short = answer.name.rpartition(".")[2]
        self.report(
            answer.site,
            f"`{short}` without `dim` takes dimension 0 of one or three dimensions, else 1: perhaps over the batch",
            help="give the dimension of the classes, often `dim=-1`",
            fix=self._fix(answer.site),
        )

    def _fix(self, site: Site) -> edits.Change | None:
        import libcst as cst

        call = self.written(site)
        if not isinstance(call, cst.Call):
            return None
        if not call.args:
            text = f"{self.model.tree.code(_func(self.model.tree.node(site)))}(dim=-1)"
            return edits.Change("add `dim=-1`", [edits.Replace(call, text)])
        last = call.args[-1]
        if last.keyword is not None:
            return edits.Change("add `dim=-1`", [edits.Prepend(last.keyword, "dim=-1, ")])
        return edits.Change("add `dim=-1`", [edits.Append(last.value, ", dim=-1")])


_CALL = LazyPattern(rb"oftm(?:ax|in)\b(?!\s*\([^\n]*\bdim\s*=)")
"""Not called with `dim`, on its own line; under another name, it is imported without being called."""


def _func(call: ast.AST) -> ast.expr:
    assert isinstance(call, ast.Call)
    return call.func


def _lacks_dimension(call: ast.Call, position: int) -> bool:
    names = {item.arg for item in call.keywords}
    is_open = None in names or any(isinstance(item, ast.Starred) for item in call.args)
    given = {"dim", "_stacklevel"} & names or len(call.args) > position
    return not is_open and not given and (position == 0 or bool(call.args) or "input" in names)
