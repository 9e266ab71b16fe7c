"""What is known of graphs so far, as those ask it who help to find out."""

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
        """Whether a value is a part of what a loader yields."""

    def graph(self, value: Value) -> set[Value]:
        """The results of calls and operators that a value's graph goes through."""
