"""Losses that apply an activation themselves, and are given what one has made."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from torchlint import Rule, repairs
from torchlint.model.queries import endings, losses

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site


class Doubled(NamedTuple):
    """The loss at `loss` takes what the activation at `activation` gives, and applies it once more."""

    loss: Site
    activation: Site


class DoubledActivation(Rule):
    """Base of the rules about such losses: which, and what they apply."""

    function: ClassVar[str]
    """The loss, as a function."""
    activation: ClassVar[str]
    spoken: ClassVar[str]
    """The loss, as a message names it."""

    def ask(self) -> Iterator[Doubled]:
        for event, loss in self.model.endings.losses(self.function):
            made = self.model.endings.of(losses.operands(loss)[0], {self.activation}, endings.SHAPES | endings.BOUNDS)
            if made is not None:
                yield Doubled(event.site, made)

    def report_Doubled(self, answer: Doubled) -> None:
        call = self.model.tree.node(answer.loss)
        given = call.args[0] if isinstance(call, ast.Call) and call.args else None
        name = f"`{given.id}`" if isinstance(given, ast.Name) else "its input"
        self.report(
            answer.loss,
            f"{self.spoken} takes logits, but {name} is a {self.activation}: "
            "gradients are small, and perfect predictions cost",
            related=[(answer.activation, f"the {self.activation} is here")],
            help=f"give it what the {self.activation} is made of",
            fix=repairs.without_activation(self.model, self.nodes, answer.loss, answer.activation),
        )
