"""The semantic model of one module: what its code means to PyTorch, worked out once and lazily."""

from __future__ import annotations

from functools import cached_property

from torchlint.model.program import Program
from torchlint.model.queries.anomaly_detection import AnomalyDetection
from torchlint.model.queries.cache_emptying import CacheEmptying
from torchlint.model.queries.clearing_words import ClearingWords
from torchlint.model.queries.grad_mode import GradModes
from torchlint.model.queries.keeping import Keeping
from torchlint.model.queries.mutation import Mutation
from torchlint.model.queries.protocol import Protocol
from torchlint.model.queries.retention import Retention
from torchlint.model.tracking import Tracking
from torchlint.syntax.python_ast import PythonTree


class Model:
    """The facade that rules ask. Each part is worked out when it is first asked for."""

    def __init__(self, tree: PythonTree) -> None:
        self.tree = tree

    @cached_property
    def program(self) -> Program:
        """The events of every root of the module."""
        return Program(self.tree)

    @cached_property
    def tracking(self) -> Tracking:
        """Which values carry a graph."""
        return Tracking(self.program.observations.backwards)

    @cached_property
    def protocol(self) -> Protocol:
        """Gradients between the steps of an optimizer."""
        return Protocol(self.program, self.tracking)

    @cached_property
    def keeping(self) -> Keeping:
        """Graphs kept across iterations."""
        return Keeping(self.program, self.tracking)

    @cached_property
    def retention(self) -> Retention:
        """Graphs retained for a second backward."""
        return Retention(self.program, self.tracking)

    @cached_property
    def mutation(self) -> Mutation:
        """Changes in place."""
        return Mutation(self.program, self.tracking)

    @cached_property
    def grad_modes(self) -> GradModes:
        """Losses computed with gradients off."""
        return GradModes(self.program, self.tracking)

    @cached_property
    def clearing_words(self) -> ClearingWords:
        """What would clear the gradients that nobody clears."""
        return ClearingWords(self.program, self.protocol)

    @cached_property
    def cache_emptying(self) -> CacheEmptying:
        """Cache emptying at every step."""
        return CacheEmptying(self.program)

    @cached_property
    def anomaly_detection(self) -> AnomalyDetection:
        """Anomaly detection that is left on."""
        return AnomalyDetection(self.program)
