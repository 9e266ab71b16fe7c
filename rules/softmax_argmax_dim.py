"""The best class over another dimension than that of the softmax."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model import events
from torchlint.model.queries import names
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_CHOOSING = {"argmax": 0, "argmin": 0, "max": 0, "min": 0, "topk": 1}
"""Methods that choose, and where their dimension stands."""
_SOFTMAX = {f"{module}.{name}": 1 for module in ("torch", "torch.nn.functional") for name in ("softmax", "log_softmax")}
_KEEPING = frozenset("detach clone cpu cuda float double contiguous".split())


class OtherDimension(NamedTuple):
    """The choice `name` at `site` goes over the dimension `chosen`, the softmax at `softmax` over `taken`."""

    site: Site
    softmax: Site
    name: str
    taken: int
    chosen: int


class SoftmaxArgmaxDim(Rule):
    """The best class is chosen over another dimension than that of the softmax.

    ## What it does
    Finds `argmax`, `max` and `topk` of the result of a softmax, at once or by a name of the same function, where both
    dimensions are written out and surely differ: 0 and 1, but not 0 and -1, which may be the same.

    ## Why is this bad?
    Probabilities sum to one over the dimension of the softmax. Over another one those of different examples are
    compared, or each class is normalized over the batch: the predictions are wrong, and no error says so.

    ## Example
    ```python
    import torch

    def predict(model, x):
        return torch.softmax(model(x), dim=0).argmax(dim=1)
    ```

    Use instead:
    ```python
    import torch

    def predict(model, x):
        return torch.softmax(model(x), dim=1).argmax(dim=1)
    ```

    ## References
    - [torch.nn.functional.softmax](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.softmax.html)
    - [torch.argmax](https://docs.pytorch.org/docs/stable/generated/torch.argmax.html)
    """

    code = "TL704"
    category = Category.CORRECTNESS
    preview = True
    calls = frozenset({"softmax"})
    triggers = ((b"oftmax",), (b"torch",), (b"argmax", b"argmin", b"max", b"min", b"topk"))

    @classmethod
    def may_fire(cls, code: bytes) -> bool:
        others = (b"argmax", b"argmin", b".max", b".min", b"topk")
        return any(word in code for word in others)

    def ask(self) -> Iterator[OtherDimension]:
        for call in self.model.tree.of_type(ast.Call):
            name, of, chosen = self._choice(call)
            softmax = self._softmax(of) if of is not None and chosen is not None else None
            taken = self._dimension_of_softmax(softmax) if softmax is not None else None
            if softmax is None or taken is None or chosen is None or taken == chosen:
                continue
            if (taken < 0) == (chosen < 0) or self._differ(softmax, taken, chosen):
                yield OtherDimension(python_ast.site_of(call), python_ast.site_of(softmax), name, taken, chosen)

    def _choice(self, call: ast.Call) -> tuple[str, ast.expr | None, int | None]:
        """What chooses, of what, and over which dimension: `x.argmax(1)`, `torch.argmax(x, dim=1)`."""
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in _CHOOSING:
            return "", None, None
        name, position = call.func.attr, _CHOOSING[call.func.attr]
        if names.imported(call.func, self.model.definitions) != f"torch.{name}":
            return name, call.func.value, _literal(call, position)
        return name, call.args[0] if call.args else None, _literal(call, position + 1)

    def _softmax(self, node: ast.expr) -> ast.Call | None:
        """The softmax that an expression is, also by a name that its function binds once."""
        node = _kept(node)
        if isinstance(node, ast.Name):
            bound = names.only_value(node, self.model.definitions)
            node = _kept(bound) if bound is not None else node
        return node if isinstance(node, ast.Call) else None

    def _dimension_of_softmax(self, call: ast.Call) -> int | None:
        qualified = names.imported(call.func, self.model.definitions)
        if qualified in _SOFTMAX:
            return _literal(call, _SOFTMAX[qualified])
        made = call.func if isinstance(call.func, ast.Call) else None
        if made is not None and names.imported(made.func, self.model.definitions) == "torch.nn.Softmax":
            return _literal(made, 0)
        is_method = isinstance(call.func, ast.Attribute) and call.func.attr in ("softmax", "log_softmax")
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        is_known = owner is not None and bool(names.imported(owner, self.model.definitions))
        return _literal(call, 0) if is_method and not is_known else None

    def _differ(self, softmax: ast.Call, first: int, second: int) -> bool:
        """Whether two dimensions of what a softmax makes, counted from both ends, are others: it has so many."""
        made = [
            event.value
            for trace in self.model.program.traces
            for event in trace.of(events.Compute)
            if event.site == python_ast.site_of(softmax)
        ]
        ranks = {item.rank for value in made for item in self.model.shapes.types_of(value)}
        return bool(ranks) and all(rank and first % rank != second % rank for rank in ranks)

    def report_OtherDimension(self, answer: OtherDimension) -> None:
        self.report(
            answer.site,
            f"`{answer.name}` goes over dimension {answer.chosen}, but the softmax over dimension {answer.taken}",
            related=[(answer.softmax, "the softmax is here")],
            help="use the same dimension for both",
        )


def _kept(node: ast.expr) -> ast.expr:
    """What only changes places: `p` of `p.detach().cpu()`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _KEEPING:
        node = node.func.value
    return node


def _literal(call: ast.Call, position: int) -> int | None:
    """The dimension of a call, if it is written out."""
    if any(isinstance(item, ast.Starred) for item in call.args):
        return None
    named = [item.value for item in call.keywords if item.arg == "dim"]
    given = next(iter((*named, *call.args[position : position + 1])), None)
    negative = isinstance(given, ast.UnaryOp) and isinstance(given.op, ast.USub)
    number = given.operand if negative and isinstance(given, ast.UnaryOp) else given
    if not isinstance(number, ast.Constant) or type(number.value) is not int:
        return None
    return -number.value if negative else number.value
