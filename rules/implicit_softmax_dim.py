"""Softmax calls without a dimension."""

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
"""The position of the dimension among the arguments."""


class NoDimension(NamedTuple):
    """The call to `name` at `site` does not specify a dimension."""

    site: Site
    name: str


class ImplicitSoftmaxDim(Rule):
    """A softmax without `dim` may normalize over the batch.

    ## What it does
    Finds `F.softmax`, `F.log_softmax`, `F.softmin`, and `nn.Softmax` and similar modules, without `dim`. Modules in
    tests are not reported, because tests often create them only to find or replace them.

    This rule is a preview because most inputs are matrices, for which PyTorch chooses the right dimension.

    ## Why is this bad?
    PyTorch then picks a dimension and warns. It picks dimension 0 for tensors with one or three dimensions, and
    dimension 1 for others. For sequences and attention, `(batch, length, classes)`, dimension 0 is the batch. The
    result for one example then depends on the other examples in its batch, and a different batch size gives different
    evaluation results.

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
    torchlint knows the dimension of the classes only after a `Linear` in an `nn.Sequential`. There the fix adds
    `dim=-1`. The fix is unsafe, because PyTorch uses dimension 0 for tensors with three dimensions.

    ## References
    - [torch.nn.functional.softmax](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.softmax.html)
    - [torch.nn.Softmax](https://docs.pytorch.org/docs/stable/generated/torch.nn.Softmax.html)
    """

    code = "TL703"
    category = Category.SUSPICIOUS
    preview = True
    triggers = ((b"oftm",), (b"torch",))

    @classmethod
    def may_fire(cls, code: bytes) -> bool:
        return _CALL.search(code) is not None

    def ask(self) -> Iterator[NoDimension]:
        for call, name in names.calls_of(_POSITIONS, self.model.definitions):
            is_layer_in_test = self.model.is_test and name.rpartition(".")[2][:1].isupper()
            if not is_layer_in_test and _lacks_dimension(call, _POSITIONS[name]):
                yield NoDimension(python_ast.site_of(call), name)

    def report_NoDimension(self, answer: NoDimension) -> None:
        short = answer.name.rpartition(".")[2]
        self.report(
            answer.site,
            f"`{short}` without `dim` uses dimension 0 for inputs with one or three dimensions, and dimension 1 "
            "otherwise: it may normalize over the batch",
            help="pass the dimension of the classes, often `dim=-1`",
            fix=self._fix(answer.site),
        )

    def _fix(self, site: Site) -> edits.Change | None:
        """The last dimension, for a layer after a `Linear`, whose last dimension holds the classes."""
        call, written = self.model.tree.node(site), self.written(site)
        assert isinstance(call, ast.Call)
        if written is None or call.args or call.keywords or not self._follows_linear(call):
            return None
        text = f"{self.model.tree.code(call.func)}(dim=-1)"
        return edits.Change("add `dim=-1`", [edits.Replace(written, text)])

    def _follows_linear(self, layer: ast.Call) -> bool:
        """Whether a layer directly follows a `Linear` in an `nn.Sequential`."""
        around = self.model.tree.parent(layer)
        if not isinstance(around, ast.Call) or self._name(around) != "torch.nn.Sequential":
            return False
        before = around.args[around.args.index(layer) - 1] if layer in around.args[1:] else None
        return isinstance(before, ast.Call) and self._name(before) == "torch.nn.Linear"

    def _name(self, call: ast.Call) -> str:
        return names.imported(call.func, self.model.definitions)


_CALL = LazyPattern(rb"oftm(?:ax|in)\b(?!\s*\([^\n]*\bdim\s*=)")
"""Matches names that are not called with `dim` on the same line. An import alias is not a call."""


def _lacks_dimension(call: ast.Call, position: int) -> bool:
    names = {item.arg for item in call.keywords}
    is_open = None in names or any(isinstance(item, ast.Starred) for item in call.args)
    given = {"dim", "_stacklevel"} & names or len(call.args) > position
    return not is_open and not given and (position == 0 or bool(call.args) or "input" in names)
