"""Cross-entropy that ignores one of two classes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model import module_values, values
from torchlint.model.queries import losses
from torchlint.model.relations import domain

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site


class Ignored(NamedTuple):
    """The loss at `loss` ignores the class `number`, as the code at `written` specifies."""

    loss: Site
    written: Site
    number: int


class IgnoredClass(Rule):
    """Cross-entropy ignores one of two classes.

    ## What it does
    Finds `cross_entropy` with an `ignore_index` of 0 or 1 where the logits have two classes, or where the labels come
    from a comparison.

    ## Why is this bad?
    Samples of the ignored class have no loss and no gradient. The model learns to always predict the other class, and
    the loss falls to 0.

    ## Example
    ```python
    import torch.nn.functional as F

    def loss(logits, scores):
        labels = (scores > 0.5).long()
        return F.cross_entropy(logits, labels, ignore_index=0)
    ```

    Use instead:
    ```python
    import torch.nn.functional as F

    def loss(logits, scores):
        labels = (scores > 0.5).long()
        return F.cross_entropy(logits, labels)
    ```
    """

    code = "TL525"
    category = Category.CORRECTNESS
    triggers = ((b"ignore_index",),)
    calls = frozenset({"cross_entropy", "CrossEntropyLoss"})

    def ask(self) -> Iterator[Ignored]:
        for event, loss in [] if self.model.is_test else self.model.endings.losses("cross_entropy"):
            module = values.resolved(loss.parents[0]) if isinstance(loss, values.ModuleOutput) else None
            if module is not None and not module_values.is_as_made(module):
                continue
            site = module.site if module is not None else loss.site
            given = losses.operands(loss)
            number = self._ignored(site) if site is not None and len(given) > 1 else None
            if site is not None and number is not None and self._are_two(given[0], given[1]):
                yield Ignored(event.site, site, number)

    def _ignored(self, site: Site) -> int | None:
        """The class that a call ignores, if it is 0 or 1."""
        call = self.model.tree.node(site)
        keywords = call.keywords if isinstance(call, ast.Call) else []
        found = [item.value for item in keywords if item.arg == "ignore_index"]
        number = found[0].value if found and isinstance(found[0], ast.Constant) else None
        return number if isinstance(number, int) and number in (0, 1) else None

    def _are_two(self, logits: values.Value, labels: values.Value) -> bool:
        """Whether there are two classes, because the logits have two or a comparison creates the labels."""

        numbers = self.model.domain.of(labels)
        if numbers is not None and numbers.kind is domain.Kind.MASK:
            return True
        types = self.model.shapes.types_of(logits)
        return bool(types) and all(
            not item.is_open and (size := item.size(1)) is not None and size.number == 2 for item in types
        )

    def report_Ignored(self, found: Ignored) -> None:
        self.report(
            found.loss,
            f"the loss ignores class {found.number}, and there are only two classes: "
            "the model learns to always predict the other one",
            related=[(found.written, "this ignores the class")] if found.written != found.loss else (),
            help="remove `ignore_index`, or use another index for padding, such as -100",
        )
