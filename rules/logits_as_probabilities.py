"""Logits that are compared with 0.5, or overlapped with a mask, as if they were probabilities."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.model import values
from torchlint.model.queries import arithmetic, endings, losses, names
from torchlint.pytorch import operators
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import Site

_COMPARISONS = frozenset({"compare", "gt", "ge", "lt", "le"})
_PROBABILITIES = frozenset({"sigmoid", "softmax"})
_SIGMOIDS = frozenset({"sigmoid", "logsigmoid"})
_CUTS = frozenset({operators.DATA, operators.DETACH})
_JOINING = frozenset({"cat", "concat", "stack", "hstack", "vstack"})


class Compared(NamedTuple):
    """The code at `site` compares logits with 0.5 or rounds them; the loss at `loss` treats them as logits."""

    site: Site
    loss: Site
    rounds: bool


class Complement(NamedTuple):
    """The code at `site` applies a sigmoid to 1 minus logits, whose sigmoid the code at `other` computes."""

    site: Site
    other: Site
    name: str


class Overlapping(NamedTuple):
    """The code at `site` divides an overlap by sums of logits; the loss at `loss` treats them as logits."""

    site: Site
    loss: Site


class LogitsAsProbabilities(Rule):
    """Logits are compared with 0.5, or rounded, like probabilities.

    ## What it does
    Finds model outputs that `BCEWithLogitsLoss` receives and that the code compares with 0.5 or rounds without a
    sigmoid. The comparison may be in the same code, or in code that evaluates the same model. Also finds
    `F.logsigmoid(1 - x)` beside `F.logsigmoid(x)`: the logit of the other class is `-x`.

    Also finds overlaps such as the Dice coefficient, `2 * (p * y).sum() / (p.sum() + y.sum())`, of logits that also go
    to `BCEWithLogitsLoss` or `CrossEntropyLoss`.

    ## Why is this bad?
    A logit of 0.5 is a probability of 0.62. Accuracy, recall and F1 use the wrong threshold. The metrics miss
    positives, and rounded logits are not even 0 or 1. The loss falls, but the metric does not improve accordingly.
    Sums of logits may be negative or near 0, so a Dice loss of logits has no minimum, and jumps.

    ## Example
    ```python
    import torch.nn.functional as F

    def step(model, x, y):
        scores = model(x)
        loss = F.binary_cross_entropy_with_logits(scores, y)
        hits = ((scores > 0.5) == y).float().mean()
        return loss, hits
    ```

    Use instead:
    ```python
    import torch.nn.functional as F

    def step(model, x, y):
        scores = model(x)
        loss = F.binary_cross_entropy_with_logits(scores, y)
        hits = ((scores > 0) == y).float().mean()
        return loss, hits
    ```

    ## References
    - [torch.nn.BCEWithLogitsLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html)
    """

    code = "TL532"
    category = Category.CORRECTNESS
    triggers = (
        (b"BCEWithLogitsLoss", b"ross_entropy", b"CrossEntropyLoss", b"sigmoid"),
        (b"0.5", b".5", b"round", b"sum", b"1 -", b"1.0 -", b"1-", b"1. -", b"1.-", b"1.0-"),
    )
    calls = frozenset(
        {"BCEWithLogitsLoss", "binary_cross_entropy_with_logits", "round", "CrossEntropyLoss", "cross_entropy"}
    )

    def ask(self) -> Iterator[Compared | Complement | Overlapping]:
        if not self.model.is_test:
            yield from self._complements()
            yield from self._compared()
            yield from self._overlapping()

    def _overlapping(self) -> Iterator[Overlapping]:
        """The overlaps of logits, once each."""
        found: dict[Site, Overlapping] = {}
        overlaps = [
            (asked, _overlap(asked)) for _, asked, _ in self.model.layout.computed() if asked.op == operators.DIV
        ]
        if not any(part for _, part in overlaps):
            return
        scores: dict[values.Value, Site] = {}
        for event, loss in self.model.endings.losses("binary_cross_entropy_with_logits", "cross_entropy"):
            for value in self._outputs(losses.operands(loss)[0]):
                scores.setdefault(value, event.site)
        for asked, part in overlaps:
            for value in self._outputs(part) if part is not None else ():
                if value in scores and asked.site is not None:
                    found.setdefault(asked.site, Overlapping(asked.site, scores[value]))
        yield from found.values()

    def _compared(self) -> Iterator[Compared]:
        scores: dict[values.Value, Site] = {}
        for event, loss in self.model.endings.losses("binary_cross_entropy_with_logits"):
            for value in self._outputs(losses.operands(loss)[0]):
                scores.setdefault(value, event.site)
        seen = set[Site]()
        for _, asked, _ in self.model.layout.computed() if scores else ():
            operand = self._asked(asked)
            found = [item for item in self._outputs(operand) if item in scores] if operand is not None else []
            if found and asked.site is not None and asked.site not in seen:
                seen.add(asked.site)
                yield Compared(asked.site, scores[found[0]], asked.op == operators.ROUND)

    def _complements(self) -> Iterator[Complement]:
        """Sigmoids of 1 minus logits: `F.logsigmoid(1 - x)` in a function that also computes `F.logsigmoid(x)`."""
        calls = [item for item in self.model.tree.of_type(ast.Call) if python_ast.called_name(item) in _SIGMOIDS]
        for call in calls:
            logits = arithmetic.complement(arithmetic.operand(call, self.model.definitions)[0])
            name = python_ast.dotted(logits) if logits is not None else ""
            scope = self.model.tree.scope_around(call)
            if not name or any(names.stores({name}, scope)):
                continue
            for other in calls:
                operand = arithmetic.operand(other, self.model.definitions)[0]
                if python_ast.dotted(operand) == name and self.model.tree.scope_around(other) is scope:
                    yield Complement(python_ast.site_of(call), python_ast.site_of(other), name)
                    break

    def report_Complement(self, found: Complement) -> None:
        self.report(
            found.site,
            f"`{found.name}` holds logits: `1 - {found.name}` is the complement of a probability, not of a logit",
            related=[(found.other, "a sigmoid of the same logits is here")],
            help=f"use `-{found.name}`: `sigmoid(-x)` is `1 - sigmoid(x)`",
        )

    def _outputs(self, value: values.Value) -> Iterator[values.Value]:
        """A value without reshaping, and the module that computed it if that module does not end in probabilities.

        Joined values yield those of each part.
        """
        value = values.resolved(value)
        while isinstance(value, values.Tensor) and value.op in endings.SHAPES | _CUTS and value.parents:
            if isinstance(value, (values.ModuleOutput, values.Component)):
                break
            value = values.resolved(value.parents[0])
        if isinstance(value, values.Tensor) and value.op in _JOINING and value.parents:
            parts = values.resolved(value.parents[0])
            for part in parts.elements() if isinstance(parts, values.Container) else ():
                yield from self._outputs(part)
        if self.model.endings.of(value, _PROBABILITIES) is not None:
            return  # no logits: the loss is wrong, not the comparison
        if isinstance(value, (values.Tensor, values.CallResult, values.Parameter)):
            yield value
        if isinstance(value, values.ModuleOutput):
            module = values.resolved(value.parents[0])
            if not isinstance(value.body, values.Phi) and isinstance(module, (values.Module, values.Unknown)):
                yield module

    def _asked(self, value: values.Tensor) -> values.Value | None:
        """The values that the code compares with 0.5 or rounds."""
        if value.op == operators.ROUND and len(value.parents) == 1:
            return value.parents[0]
        if value.op not in _COMPARISONS or len(value.parents) != 2:
            return None
        node = self.model.tree.node(value.site) if value.site is not None else None
        if isinstance(node, ast.Compare) and not isinstance(node.ops[0], (ast.Gt, ast.GtE, ast.Lt, ast.LtE)):
            return None
        bound = values.resolved(value.parents[1])
        return value.parents[0] if isinstance(bound, values.Plain) and bound.constant == 0.5 else None

    def report_Overlapping(self, found: Overlapping) -> None:
        self.report(
            found.site,
            "the loss treats these as logits, but this overlap needs probabilities",
            related=[(found.loss, "the loss expects logits here")],
            help="apply a sigmoid or softmax before the overlap",
        )

    def report_Compared(self, found: Compared) -> None:
        what = "rounded" if found.rounds else "compared with 0.5"
        self.report(
            found.site,
            f"the loss treats these as logits, but they are {what} as if they were probabilities",
            related=[(found.loss, "the loss expects logits here")],
            help="compare logits with 0, or apply a sigmoid first; use `BCELoss` if the model ends in a sigmoid",
        )


def _overlap(ratio: values.Tensor) -> values.Value | None:
    """The factor of an overlap `(p * y).sum() / (p.sum() + y.sum())` that also stands alone in the denominator."""
    if len(ratio.parents) != 2:
        return None
    over, under = map(_without_numbers, ratio.parents)
    product = values.resolved(over.parents[0]) if _is(over, operators.SUM) else None
    if not isinstance(product, values.Tensor) or not _is(product, operators.MUL) or not _is(under, operators.ADD):
        return None
    summed = [_without_numbers(item) for item in under.parents]
    alone = [values.resolved(item.parents[0]) for item in summed if _is(item, operators.SUM)]
    factors = list(map(values.resolved, product.parents))
    return factors[0] if len(alone) == 2 and set(alone) == set(factors) and len(factors) == 2 else None


def _is(value: values.Value, op: str) -> bool:
    return isinstance(value, values.Tensor) and value.op == op and bool(value.parents)


def _without_numbers(value: values.Value) -> values.Value:
    """A value without the numbers that are added to it or multiply it: `x` of `2 * x + eps`."""
    value = values.resolved(value)
    while isinstance(value, values.Tensor) and value.op in (operators.ADD, operators.MUL):
        rest = [item for item in map(values.resolved, value.parents) if isinstance(item, values.Tensor)]
        if len(rest) != 1:
            break
        value = rest[0]
    return value
