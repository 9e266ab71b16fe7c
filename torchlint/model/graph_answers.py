"""The answers about graphs known so far, for the analyses that help to find the others."""

from __future__ import annotations

from typing import Protocol

from torchlint.model.values import Answer, Value
from torchlint.syntax.python_ast import Site


class GraphAnswers(Protocol):
    """Answers about values; see `Tracking`."""

    backpropagated: set[Value]
    trained: set[Value | Site | None]

    def tracked(self, value: Value) -> Answer:
        """Whether a value carries a graph."""

    def is_data(self, value: Value) -> bool:
        """Whether a value is part of a batch from a loader."""

    def graph(self, value: Value) -> set[Value]:
        """The results of calls and operators in a value's graph."""
