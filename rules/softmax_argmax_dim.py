"""Predictions that pick the best class along a different dimension than the softmax."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.model import events
from torchlint.model.queries import choices, names
from torchlint.pytorch import naming
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_SOFTMAX = {f"{module}.{name}": 1 for module in ("torch", "torch.nn.functional") for name in ("softmax", "log_softmax")}

_PICKING = frozenset({"argmax", "max"})
_SQUEEZING = frozenset({"squeeze", "detach", "cpu", "float"})


class OtherDimension(NamedTuple):
    """The call `name` at `site` picks along dimension `chosen`, but the softmax at `softmax` normalizes `taken`."""

    site: Site
    softmax: Site
    name: str
    taken: int
    chosen: int
    is_of_batch: bool
    """Whether the softmax certainly normalizes a network's output over the batch, and the other call picks a class."""


class SoftmaxArgmaxDim(Rule):
    """The best class is picked along a different dimension than the softmax.

    ## What it does
    Finds `argmax`, `max` and `topk` of a softmax result, applied directly or to a variable of the same function.
    Reported only if both dimensions are literal and torchlint knows that they differ. Dimensions 0 and 1 differ, but 0
    and -1 may be the same.

    By default, torchlint reports only an `argmax` or `max` along dimension 1 of a softmax along dimension 0, where the
    scores are the output of a network: `torch.softmax(model(x), dim=0).argmax(dim=1)`. The others need `--preview`,
    because some methods use two dimensions on purpose, such as the best patch for each class.

    ## Why is this bad?
    Probabilities sum to one along the dimension of the softmax. Along a different dimension, the program compares
    different examples, or each class is normalized over the batch. The predictions are wrong, and there is no error.

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
    calls = frozenset({"softmax"})
    triggers = ((b"oftmax",), (b"torch",), (b"argmax", b"argmin", b"max", b"min", b"topk"))

    @classmethod
    def may_fire(cls, code: bytes) -> bool:
        others = (b"argmax", b"argmin", b".max", b".min", b"topk")
        return any(word in code for word in others)

    def ask(self) -> Iterator[OtherDimension]:
        for call in self.model.tree.of_type(ast.Call):
            name, of, chosen = choices.choice(call, self.model.definitions)
            softmax = self._softmax(of) if of is not None and chosen is not None else None
            taken = self._dimension_of_softmax(softmax) if softmax is not None else None
            if softmax is None or taken is None or chosen is None or taken == chosen:
                continue
            if (taken < 0) == (chosen < 0) or self._differ(softmax, taken, chosen):
                is_of_batch = name in _PICKING and (taken, chosen) == (0, 1) and self._is_of_network(softmax)
                yield OtherDimension(
                    python_ast.site_of(call), python_ast.site_of(softmax), name, taken, chosen, is_of_batch
                )

    def _softmax(self, node: ast.expr) -> ast.Call | None:
        """The softmax behind an expression, directly or through a name that its function binds once."""
        node = choices.kept(node)
        if isinstance(node, ast.Name):
            bound = names.only_value(node, self.model.definitions)
            node = choices.kept(bound) if bound is not None else node
        return node if isinstance(node, ast.Call) else None

    def _dimension_of_softmax(self, call: ast.Call) -> int | None:
        qualified = names.imported(call.func, self.model.definitions)
        if qualified in _SOFTMAX:
            return choices.literal(call, _SOFTMAX[qualified])
        made = call.func if isinstance(call.func, ast.Call) else None
        if made is not None and names.imported(made.func, self.model.definitions) == "torch.nn.Softmax":
            return choices.literal(made, 0)
        is_method = isinstance(call.func, ast.Attribute) and call.func.attr in ("softmax", "log_softmax")
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        is_known = owner is not None and bool(names.imported(owner, self.model.definitions))
        return choices.literal(call, 0) if is_method and not is_known else None

    def _is_of_network(self, softmax: ast.Call) -> bool:
        """Whether a softmax gets the output of a network as it is: `model(x)`, `model(x).squeeze()`."""
        is_method = isinstance(softmax.func, ast.Attribute) and softmax.func.attr in ("softmax", "log_softmax")
        is_function = names.imported(softmax.func, self.model.definitions) in _SOFTMAX
        owner = (
            softmax.func.value if is_method and not is_function and isinstance(softmax.func, ast.Attribute) else None
        )
        given = owner if owner is not None else next(iter(python_ast.arguments(softmax)), None)
        for _ in range(2):
            given = python_ast.without_calls(given, _SQUEEZING) if given is not None else None
            if isinstance(given, ast.Name):
                given = names.only_value(given, self.model.definitions)
        called = python_ast.called_name(given) if isinstance(given, ast.Call) else ""
        return naming.is_called_as_module(called)

    def _differ(self, softmax: ast.Call, first: int, second: int) -> bool:
        """Whether two dimensions surely differ. Counts negative dimensions from the end where the rank is known."""
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
            f"`{answer.name}` picks along dimension {answer.chosen}, but the softmax is along {answer.taken}",
            related=[(answer.softmax, "the softmax is here")],
            help="use the same dimension for both",
            confidence=Confidence.HIGH if answer.is_of_batch else Confidence.LOW,
        )
