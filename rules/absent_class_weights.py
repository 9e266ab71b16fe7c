"""Class weights from `bincount` that depend on which classes occur."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.model import values
from torchlint.pytorch import operators
from torchlint.syntax.python_ast import Site

_WEIGHTED = {"CrossEntropyLoss": 0, "NLLLoss": 0, "cross_entropy": 2, "nll_loss": 2}
"""Losses with class weights, each with the position of its `weight`."""
_ENCODED = (b"LabelEncoder", b"factorize", b"return_inverse", b".codes")
"""Words in programs that number only the classes that occur."""
_COUNTING = frozenset({"bincount"})
_MOST = 40


class Counted(NamedTuple):
    """The call to `bincount` at `counting` computes the class weights of the loss at `loss`."""

    counting: Site
    loss: Site | None
    is_of_batch: bool
    """Whether the labels are those of a batch, which need not have all classes."""


class AbsentClassWeights(Rule):
    """Class weights come from `bincount` without the number of classes.

    ## What it does
    Finds `bincount` without `minlength` whose counts become the `weight` of `cross_entropy` or `nll_loss`. Not reported
    if the program takes the number of classes from the counts, as in `len(counts)`.

    Reported only with `--preview`: labels that are not those of a batch. A whole dataset usually has all classes.

    ## Why is this bad?
    `bincount` returns counts only up to the largest label in its input. If the last class does not occur in a batch or
    a training split, the weights are too short and the loss raises. This often happens hours into a run.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F

    def loss(logits, labels):
        counts = torch.bincount(labels)
        return F.cross_entropy(logits, labels, weight=1 / (counts + 1))
    ```

    Use instead:
    ```python
    import torch
    import torch.nn.functional as F

    def loss(logits, labels):
        counts = torch.bincount(labels, minlength=logits.size(1))
        return F.cross_entropy(logits, labels, weight=1 / (counts + 1))
    ```

    ## What verify shows
    `torchlint verify` confirms the finding if the loss raises because it gets too few weights. It refutes the finding
    if the line ran at least once and three backward passes raised no error.

    ## References
    - [torch.bincount](https://docs.pytorch.org/docs/stable/generated/torch.bincount.html): `minlength`
    """

    code = "TL547"
    category = Category.SUSPICIOUS
    triggers = ((b"bincount",), (b"CrossEntropyLoss", b"cross_entropy", b"NLLLoss", b"nll_loss"))
    calls = frozenset({"bincount", *_WEIGHTED})

    def ask(self) -> Iterator[Counted]:
        if self.model.is_test or self.model.mentions(_ENCODED):
            return
        seen = set[Site]()
        calls = self.model.program.observations.calls
        for loss, (name, arguments, _) in list(calls.items()):
            place = _WEIGHTED.get(name.rpartition(".")[2])
            weight = arguments.get(place, "weight") if place is not None else None
            for count in self._counts(weight) if weight is not None else ():
                if count.site is not None and count.site not in seen:
                    seen.add(count.site)
                    yield Counted(count.site, loss.site, self._is_of_batch(count, arguments.get(1, "target")))

    def _counts(self, weight: values.Value) -> Iterator[values.Tensor]:
        """The calls to `bincount` from which a weight is computed."""
        stack, seen = [weight], set[values.Value]()
        while stack and len(seen) < _MOST:
            item = values.resolved(stack.pop())
            if item in seen:
                continue
            seen.add(item)
            known = self.model.program.observations.calls.get(item)
            if isinstance(item, values.NewTensor) and known is not None:
                stack.extend(known[1].positional[:1])  # `torch.tensor(weights)`
            elif isinstance(item, values.Tensor) and item.op in _COUNTING:
                if known is not None and not known[1].starred and not self._has_length(item):
                    yield item
            elif isinstance(item, values.Tensor) and item.op == operators.SETITEM:
                stack.extend(item.parents[:1])  # an assignment to some elements does not change the size
            elif isinstance(item, values.Tensor) and not isinstance(item, values.ModuleOutput):
                stack.extend(item.parents)

    def _is_of_batch(self, count: values.Tensor, target: values.Value | None) -> bool:
        """Whether the counted labels are the target of the same loss, or others in each iteration of a loop."""
        counted = values.resolved(count.parents[0]) if count.parents else None
        return bool(count.loops) or (target is not None and values.resolved(target) is counted)

    def _has_length(self, count: values.Tensor) -> bool:
        """Whether a call states the number of classes, or the program takes that number from the counts."""
        known = self.model.program.observations.calls[count]
        if known[1].get(1 if known[2] is not None else 2, "minlength") is not None:
            return True
        name = re.escape(count.label)
        used = rf"\blen\({name}\)|\b{name}\.(shape|numel|size)\b"
        return bool(name) and re.search(used, self.model.tree.source.code.decode("utf-8", "replace")) is not None

    def report_Counted(self, found: Counted) -> None:
        self.report(
            found.counting,
            "`bincount` counts only up to the largest label: without the last class, the weights are too short",
            related=[(found.loss, "the loss uses the weights")] if found.loss is not None else (),
            help="pass `minlength=` with the number of classes",
            confidence=Confidence.HIGH if found.is_of_batch else Confidence.LOW,
        )
