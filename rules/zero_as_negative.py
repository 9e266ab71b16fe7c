"""Targets of 0 for losses that expect 1 and -1."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model import events, values
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_LOSSES = {
    "CosineEmbeddingLoss": 2, "cosine_embedding_loss": 2, "MarginRankingLoss": 2, "margin_ranking_loss": 2,
    "HingeEmbeddingLoss": 1, "hinge_embedding_loss": 1, "SoftMarginLoss": 1, "soft_margin_loss": 1,
}  # fmt: skip
"""The losses with targets of 1 and -1, each with the place of the target."""
_CASTS = frozenset("float long int double to type type_as cuda cpu view reshape squeeze unsqueeze".split())
_MASKS = frozenset({"compare", "eq", "ne", "gt", "lt", "ge", "le"})
_ZEROS = frozenset({"zeros", "zeros_like", "new_zeros"})


class ZeroTarget(NamedTuple):
    """The loss at `site` gets the target created at `made`, which contains zeros."""

    site: Site
    made: Site
    loss: str


class ZeroAsNegative(Rule):
    """A loss that expects targets of 1 and -1 gets 0.

    ## What it does
    Finds `CosineEmbeddingLoss`, `MarginRankingLoss`, `HingeEmbeddingLoss` and `SoftMarginLoss` whose target is a
    comparison, `zeros`, or `randint(0, 2)`.

    ## Why is this bad?
    In these losses, -1 stands for the negative class. With a target of 0, `CosineEmbeddingLoss` returns 0, and
    `MarginRankingLoss` and `SoftMarginLoss` return a constant, so the model learns nothing from the negatives.
    `HingeEmbeddingLoss` even pulls negative pairs together if their distance is above the margin. There is no error.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F

    def loss(first, second, labels_1, labels_2):
        same = (labels_1 == labels_2).float()
        return F.cosine_embedding_loss(first, second, same)
    ```

    Use instead:
    ```python
    import torch
    import torch.nn.functional as F

    def loss(first, second, labels_1, labels_2):
        same = (labels_1 == labels_2).float()
        return F.cosine_embedding_loss(first, second, 2 * same - 1)
    ```

    ## References
    - [torch.nn.CosineEmbeddingLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.CosineEmbeddingLoss.html)
    """

    code = "TL561"
    category = Category.CORRECTNESS
    triggers = (tuple(name.encode() for name in _LOSSES),)
    calls = frozenset(_LOSSES)

    def ask(self) -> Iterator[ZeroTarget]:
        seen: set[Site] = set()
        for trace in [] if self.model.is_test else self.model.program.traces:
            for event in trace.of(events.Compute):
                found = self._of_loss(event)
                if found is not None and found.site not in seen:
                    seen.add(found.site)
                    yield found

    def _of_loss(self, event: events.Compute) -> ZeroTarget | None:
        loss = event.value
        given = list(loss.parents)
        name = loss.op
        if isinstance(loss, values.ModuleOutput):
            module = values.resolved(given.pop(0))
            name = module.name.rpartition(".")[2] if isinstance(module, values.Module) and module.info is None else ""
        place = _LOSSES.get(name)
        if place is None or len(given) <= place:
            return None
        target = values.resolved(given[place])
        made = self._zeros(target)
        return ZeroTarget(event.site, made, name) if made is not None else None

    def _zeros(self, target: values.Value) -> Site | None:
        """The place that creates a target with zeros: a comparison, `zeros` or `randint(0, 2)`; None if not known."""
        while isinstance(target, values.Tensor) and target.op in _CASTS and target.parents:
            target = values.resolved(target.parents[0])
        if isinstance(target, values.Tensor) and target.op in _MASKS:
            return target.site
        node = self.model.tree.own_node(target.site) if isinstance(target, values.NewTensor) else None
        if not isinstance(node, ast.Call) or target.has_use(values.FILLED):
            return None
        return target.site if _makes_zeros(node) else None

    def report_ZeroTarget(self, found: ZeroTarget) -> None:
        self.report(
            found.site,
            f"`{found.loss}` expects targets of 1 and -1, but this target contains 0",
            related=[(found.made, "the target is created here")] if found.made != found.site else (),
            help="pass `2 * target - 1`",
        )


def _makes_zeros(call: ast.Call) -> bool:
    """Whether a call creates a tensor with zeros, and with no number but 0 and 1."""
    name = python_ast.called_name(call)
    bounds = [item.value for item in call.args if isinstance(item, ast.Constant)]
    return name in _ZEROS or (name == "randint" and bounds in ([0, 2], [2]))
