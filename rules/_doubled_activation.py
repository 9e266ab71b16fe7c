"""Losses that apply an activation themselves to the result of the same activation."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from torchlint import Rule, edits, repairs
from torchlint.model import events, values
from torchlint.model.queries import endings, losses
from torchlint.pytorch import api

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site


_OF_LOGITS = frozenset({"cross_entropy", "binary_cross_entropy_with_logits"})
"""Losses that all expect logits: where the program chooses one of them, no choice makes an activation right."""


class Doubled(NamedTuple):
    """The loss at `loss` gets the result of the activation at `activation`, and applies it again."""

    loss: Site
    activation: Site
    computed: Site | None
    """The place inside the program's own loss module that computes the loss."""


class DoubledActivation(Rule):
    """The base of the rules about such losses, which set the loss and its activation."""

    function: ClassVar[str]
    """The loss as a function."""
    activation: ClassVar[str]
    spoken: ClassVar[str]
    """The loss as a message names it."""

    def ask(self) -> Iterator[Doubled]:
        """Losses that train, and evaluation losses in a file that contains no training."""
        found = list(self._found())
        trained = [answer for answer, value in found if self._may_train(value)]
        yield from trained or (answer for answer, _ in found)

    def _may_train(self, loss: values.Value) -> bool:
        """Whether code calls `backward` on a loss, or returns the loss so that a caller may do that."""
        if loss in self.model.tracking.backpropagated:
            return True
        returned = (event.value for trace in self.model.program.traces for event in trace.of(events.Returned))
        return any(loss in self.model.tracking.graph(value) for value in returned)

    def _found(self) -> Iterator[tuple[Doubled, values.Value]]:
        for event, loss in self.model.endings.losses(self.function, besides=_OF_LOGITS):
            if event.mode is api.GradMode.OFF:
                continue  # an evaluation loss: the rule reports the training loss
            if losses.takes_one_hot(loss):
                continue  # this call raises
            given = losses.operands(loss)[0]
            in_function = self.model.definitions.function_around(self.model.tree.node(event.site)) is not None
            if in_function and self.model.tracking.tracked(given) is values.Answer.NO:
                continue  # a prior has no gradients that could become small
            made = self.model.endings.of(given, {self.activation}, endings.SHAPES | endings.BOUNDS, event.value)
            if made is not None and not self.model.endings.is_inside(event, loss, made):
                yield Doubled(event.site, made, loss.site if loss is not event.value else None), event.value

    def report_Doubled(self, answer: Doubled) -> None:
        call = self.model.tree.node(answer.loss)
        given = call.args[0] if isinstance(call, ast.Call) and call.args and not answer.computed else None
        name = f"`{given.id}`" if isinstance(given, ast.Name) else "its input"
        self.report(
            answer.loss,
            f"{self.spoken} expects logits, but {name} is a {self.activation}: "
            "gradients are small, and perfect predictions still have a loss",
            related=[
                (answer.activation, f"the {self.activation} is here"),
                *([(answer.computed, "the loss is computed here")] if answer.computed is not None else []),
            ],
            help=f"pass the input of the {self.activation} to the loss",
            fix=self._fix(answer) if answer.computed is None else None,
        )

    def _fix(self, answer: Doubled) -> edits.Change | None:
        return repairs.without_activation(self.model, self.nodes, answer.loss, answer.activation)
