"""Scores: whether lower or higher is better for a number, as far as its computation shows."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from enum import Enum
from functools import cached_property

from torchlint.model.events import Backward
from torchlint.model.program import Program
from torchlint.model.queries import losses
from torchlint.model.values import (
    FILLED,
    CallResult,
    Container,
    ModuleOutput,
    Parameter,
    Phi,
    Plain,
    Tensor,
    Value,
    resolved,
)
from torchlint.pytorch import operators
from torchlint.syntax.python_ast import Site

_MOST = 128
"""Maximum number of values visited for one answer."""
_PASSING = frozenset("item float mean sum detach cpu to double half numpy data clone tolist cuda long int".split())
"""Operators and functions whose result increases with their first operand."""
_MEANS = frozenset("numpy.mean numpy.sum numpy.average statistics.mean statistics.fmean math.ceil math.floor".split())
"""Functions of other packages with such a result."""
_EQUAL = frozenset({"eq"})
_SIZES = frozenset("len size shape numel".split())
_JOINING = frozenset("stack cat tensor".split())
_PARTS = frozenset({"float", "int", operators.GETITEM})
_PICKING = frozenset({operators.ARGMAX, "max", "topk", "round"})
"""Operators that turn a network's output into predictions."""


class Better(Enum):
    """The better direction of a score; the value is its word."""

    LOWER = "lower"
    HIGHER = "higher"


_WORDS = {
    Better.LOWER: frozenset("loss losses mse mae rmse perplexity ppl wer cer nll".split()),
    Better.HIGHER: frozenset("acc accuracy f1 auc auroc iou miou psnr ssim recall bleu".split()),
}
"""The words of names that stand for one direction."""


def better_by_name(name: str) -> Better | None:
    """The better direction of a score with this name, as `val/loss_epoch` or `best_f1`; None if words are missing."""
    words = set(re.split(r"[^a-z0-9]+", name.lower()))
    found = {better for better, known in _WORDS.items() if not words.isdisjoint(known)}
    return found.pop() if len(found) == 1 else None


class Scores:
    """Answers about values that a program has computed."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def better(self, value: Value) -> Better | None:
        """The better direction: lower for losses and what is minimized, higher for shares of correct predictions."""
        found: set[Better] = set()

        def parts(item: Value) -> Iterable[Value] | None:
            is_loss = bool(losses.loss_function(item)) or _maker(item) in self._minimized
            if not is_loss and not self._counts_hits(item):
                return self._parts(item)
            found.add(Better.LOWER if is_loss else Better.HIGHER)
            return ()

        return found.pop() if _is_made_of(value, parts) and len(found) == 1 else None

    @cached_property
    def _minimized(self) -> set[Value | None]:
        """The criteria whose results go backward, with nothing but a factor: smaller results are better."""
        passed = (event for trace in self.program.traces for event in trace.of(Backward))
        if b"maximize=" in self.program.tree.source.code:
            return set()  # an optimizer may go the other way
        return {_maker(self._unscaled(event.loss)) for event in passed} - {None}

    def _unscaled(self, value: Value) -> Value:
        """A loss without its division by a count."""
        value = resolved(value)
        op, operands = self._computed(value)
        is_scaled = op in (operators.DIV, operators.DIV_) and len(operands) > 1 and self._is_count(operands[1])
        return self._unscaled(operands[0]) if is_scaled else value

    def _parts(self, value: Value) -> Iterable[Value] | None:
        """The operands with which a value increases, if it otherwise depends only on counts; else None."""
        if isinstance(value, Phi):
            return value.parents
        if isinstance(value, Container):
            return None if value.is_open or value.has_use(FILLED) else value.elements()
        if isinstance(value, Plain) and value.is_literal:
            is_zero = isinstance(value.constant, (int, float)) and value.constant == 0
            return () if is_zero or value.is_none else None
        op, operands = self._computed(value)
        if op in (operators.ADD, operators.ADD_):
            return operands or None
        if op == operators.MUL:
            scaled = [item for item in operands if not self._is_count(item)]
            return scaled if len(scaled) == 1 else None
        if op in (operators.DIV, operators.DIV_) and len(operands) > 1:
            return operands[:1] if self._is_count(operands[1]) else None
        is_passing = op in _PASSING or op in _MEANS or op in _JOINING
        return operands[:1] if is_passing and operands else None

    def _computed(self, value: Value) -> tuple[str, tuple[Value, ...]]:
        """The operator or function that gives a tensor or number, and its operands."""
        if isinstance(value, Tensor):
            return value.op, value.parents
        how, operands, _ = self.program.observations.numbers.get(value, ("", (), None))
        return how, operands

    def _is_count(self, value: Value) -> bool:
        """Whether a value is surely a positive number independent of any score: a size, or a sum of sizes."""
        return _is_made_of(value, self._counted)

    def _counted(self, value: Value) -> Iterable[Value] | None:
        """The counts that a count is composed of; None if a value is no count."""
        op, operands = self._computed(value)
        if isinstance(value, Phi):
            return value.parents
        if op in (operators.ADD, operators.MUL) and operands:
            return operands
        if op in _PARTS and operands:
            return operands[:1]
        return () if op in _SIZES or (isinstance(value, Plain) and _is_above_zero(value.constant)) else None

    def _counts_hits(self, value: Value) -> bool:
        """Whether a value marks where predictions equal the targets: `logits.argmax(1) == y`."""
        if not isinstance(value, Tensor) or value.site is None:
            return False
        node = self._node(value.site)
        is_equal = isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq)
        return (is_equal or value.op in _EQUAL) and any(map(_is_picked, value.parents))

    def _node(self, site: Site) -> ast.AST | None:
        tree = self.program.tree if site.inner is None else site.inner.tree
        return tree.own_node(site.written)


def _maker(value: Value) -> Value | None:
    """The module that gives a value, or a parameter that a function calls."""
    if isinstance(value, ModuleOutput):
        return resolved(value.parents[0])
    callee = resolved(value.callee) if isinstance(value, CallResult) and value.callee is not None else None
    return callee if isinstance(callee, Parameter) else None


def _is_made_of(value: Value, parts: Callable[[Value], Iterable[Value] | None]) -> bool:
    """Whether `parts` accepts a value and, recursively, its inputs."""
    seen: set[Value] = set()
    stack = [value]
    while stack:
        item = stack.pop()
        if item not in seen:
            seen.add(item)
            inside = parts(item) if len(seen) <= _MOST else None
            if inside is None:
                return False
            stack.extend(inside)
    return True


def _is_above_zero(number: object) -> bool:
    """Whether a literal may be the initial value of a count, including zero."""
    return isinstance(number, (int, float)) and number >= 0


def _is_picked(value: Value) -> bool:
    """Whether a value is a prediction: a result of `argmax` or `max`, or a part of it."""
    for _ in range(8):
        if isinstance(value, Tensor) and value.op in _PICKING:
            return True
        if not value.parents:
            return False
        value = value.parents[0]
    return False
