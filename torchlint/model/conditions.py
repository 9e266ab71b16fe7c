"""Conditions: which arm of an `if` is certain, and what a test says of the names in it."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from torchlint import hints
from torchlint.knowledge import GradMode
from torchlint.model.assignments import Assignments
from torchlint.model.definitions import dotted
from torchlint.model.values import Phi, Plain, Tensor, inputs_of
from torchlint.syntax import walk


class Conditions(Assignments):
    """Answers about the tests of branches, at this point of the program."""

    def certain_arm(self, node: cst.If) -> int | None:
        """The arm that is taken, where that is known: 0 is the body, 1 the rest."""
        if is_main_guard(node.test) or (node.orelse is None and self._asked(node.test).endswith(".is_available")):
            return 0
        known = self._known(node.test)
        return None if known is None else 0 if known else 1

    def _known(self, test: cst.BaseExpression) -> bool | None:
        """The truth of a test, where the grad mode decides it, or what the call under way gives."""
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            known = self._known(test.expression)
            return None if known is None else not known
        if isinstance(test, cst.BooleanOperation):
            decisive = isinstance(test.operator, cst.Or)
            parts = {self._known(part) for part in (test.left, test.right)}
            return decisive if decisive in parts else None if None in parts else not decisive
        if self._asked(test) == "torch.is_grad_enabled":
            return None if self.mode is GradMode.UNKNOWN else self.mode is GradMode.ON
        if isinstance(test, cst.Comparison):
            known = self._known_comparison(test.left, test.comparisons)
        else:
            given = self._given(test)
            known = bool(given.constant) if given is not None else None
        return False if known is None and self._fails_without_grad(test) else known

    def _asked(self, test: cst.BaseExpression) -> str:
        """The function that a test calls."""
        return self.definitions.qualified(dotted(test.func)) if isinstance(test, cst.Call) else ""

    def _fails_without_grad(self, test: cst.BaseExpression) -> bool:
        """Whether a test cannot hold since gradients are off: `loss.requires_grad`, and in a function that is called
        with gradients off `self.training` or `stage == "train"`."""
        if isinstance(test, cst.Comparison):
            equal = len(test.comparisons) == 1 and isinstance(test.comparisons[0].operator, cst.Equal)
            word = test.comparisons[0].comparator
            return equal and isinstance(word, cst.SimpleString) and self._means_training(word.raw_value)
        if isinstance(test, cst.Attribute) and test.attr.value == "requires_grad":
            value = self.frame.locals.get(test.value.value) if isinstance(test.value, cst.Name) else None
            return isinstance(value, Tensor) and value.mode is GradMode.OFF and not value.leaf
        return self._means_training(dotted(test).rpartition(".")[2])

    def _means_training(self, name: str) -> bool:
        """Whether a flag of a name is off, since a caller that trains would leave gradients on."""
        return self.frame.called_with is GradMode.OFF and hints.TRAINING.fullmatch(name) is not None

    def _known_comparison(self, left: cst.BaseExpression, comparisons: Sequence[cst.ComparisonTarget]) -> bool | None:
        """The truth of `mode == "train"` and of `optimizer is None`, and of their opposites."""
        given, operator = self._given(left), comparisons[0].operator
        right = comparisons[0].comparator
        if len(comparisons) > 1 or given is None:
            return None
        if dotted(right) == "None":
            holds = given.is_none
        elif isinstance(right, (cst.SimpleString, cst.Integer)):
            literal = self.value(right)
            holds = isinstance(literal, Plain) and literal.constant == given.constant
        else:
            return None
        if isinstance(operator, (cst.Equal, cst.Is)):
            return holds
        return not holds if isinstance(operator, (cst.NotEqual, cst.IsNot)) else None

    def _given(self, name: cst.BaseExpression) -> Plain | None:
        """The literal that the call under way has given a parameter."""
        info = self.frame.info
        if not self.calls or info is None or not isinstance(name, cst.Name) or name.value not in info.parameters:
            return None
        value = self.frame.locals.get(name.value)
        return value if isinstance(value, Plain) and value.is_literal else None

    def absent(self, test: cst.BaseExpression) -> tuple[str, int] | None:
        """A name that is None in one of two arms, and in which: of `h is None`, `h is not None`, `h`, `not h`."""
        inverted = False
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            test, inverted = test.expression, True
        if (
            isinstance(test, cst.Comparison)
            and len(test.comparisons) == 1
            and dotted(test.comparisons[0].comparator) == "None"
        ):
            inverted = inverted is not isinstance(test.comparisons[0].operator, cst.Is)
            test = test.left
        if not isinstance(test, cst.Name):
            return None
        value = self.frame.locals.get(test.value)
        maybe = isinstance(value, Phi) and any(isinstance(item, Plain) and item.is_none for item in inputs_of(value))
        return (test.value, 0 if inverted else 1) if maybe else None


def is_main_guard(test: cst.BaseExpression) -> bool:
    """`__name__ == "__main__"`."""
    return isinstance(test, cst.Comparison) and any(
        isinstance(item, cst.Name) and item.value == "__name__" for item in walk(test)
    )
