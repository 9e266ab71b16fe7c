"""Losses that apply an activation themselves to the result of the same activation."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from torchlint import Rule, edits, repairs
from torchlint.model import events, lineage, module_values, values
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
    evaluates: bool = False
    """Whether the loss is computed without gradients, so that only a reported number is wrong."""


class DoubledActivation(Rule):
    """The base of the rules about such losses, which set the loss and its activation."""

    function: ClassVar[str]
    """The loss as a function."""
    activation: ClassVar[str]
    spoken: ClassVar[str]
    """The loss as a message names it."""

    def ask(self) -> Iterator[Doubled]:
        """Losses that train; otherwise losses of evaluations."""
        found = list(self._found()) if not self.model.is_test else []
        with_grad = [(answer, value) for answer, value in found if not answer.evaluates]
        trained = [answer for answer, value in with_grad if self._may_train(value)]
        yield from trained or (answer for answer, _ in with_grad or found)

    def _may_train(self, loss: values.Value) -> bool:
        """Whether code calls `backward` on a loss, or returns the loss so that a caller may do that."""
        if loss in self.model.tracking.backpropagated:
            return True
        returned = (event.value for trace in self.model.program.traces for event in trace.of(events.Returned))
        return any(loss in self.model.tracking.graph(value) for value in returned)

    def _found(self) -> Iterator[tuple[Doubled, values.Value]]:
        for event, loss in self.model.endings.losses(self.function, besides=_OF_LOGITS):
            if losses.takes_one_hot(loss):
                continue  # this call raises
            given, evaluates = losses.operands(loss)[0], event.mode is api.GradMode.OFF
            if not (_is_predicted(given) if evaluates else self._may_learn(event.site, given)):
                continue
            made = self.model.endings.of(given, {self.activation}, endings.SHAPES | endings.BOUNDS, event.value)
            if made is not None and not self.model.endings.is_inside(event, loss, made):
                computed = loss.site if loss is not event.value else None
                yield Doubled(event.site, made, computed, evaluates), event.value

    def _may_learn(self, loss: Site, given: values.Value) -> bool:
        """Whether an input of a loss may have gradients, which a prior does not."""
        in_function = self.model.definitions.function_around(self.model.tree.node(loss)) is not None
        return not in_function or self.model.tracking.tracked(given) is not values.Answer.NO

    def report_Doubled(self, answer: Doubled) -> None:
        call = self.model.tree.node(answer.loss)
        given = call.args[0] if isinstance(call, ast.Call) and call.args and not answer.computed else None
        name = f"`{given.id}`" if isinstance(given, ast.Name) else "its input"
        effect = "" if answer.evaluates else "gradients are small, and "
        self.report(
            answer.loss,
            f"{self.spoken} expects logits, but {name} is a {self.activation}: "
            f"{effect}perfect predictions still have a loss",
            related=[
                (answer.activation, f"the {self.activation} is here"),
                *([(answer.computed, "the loss is computed here")] if answer.computed is not None else []),
            ],
            help=f"pass the input of the {self.activation} to the loss",
            fix=self._fix(answer) if answer.computed is None else None,
        )

    def _fix(self, answer: Doubled) -> edits.Change | None:
        return repairs.without_activation(self.model, self.nodes, answer.loss, answer.activation)


def _is_predicted(given: values.Value) -> bool:
    """Whether a module computes a value."""
    return any(map(module_values.is_forward, lineage.ancestry([given])))
