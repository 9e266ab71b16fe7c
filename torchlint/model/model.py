"""The semantic model of one module: what its code means to PyTorch, worked out once and lazily."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

from torchlint.model.imports import Imports
from torchlint.model.ownership import Ownership
from torchlint.model.program import Program
from torchlint.model.queries.parameter_updates import ParameterUpdates
from torchlint.model.queries.retained_graphs import RetainedGraphs
from torchlint.model.queries.sure_graphs import SureGraphs
from torchlint.model.tracking import Tracking
from torchlint.syntax.python_ast import PythonTree


class Model:
    """The facade that rules ask. Each part is worked out when it is first asked for."""

    def __init__(self, tree: PythonTree, calls: Collection[str] = (), imports: Imports | None = None) -> None:
        """`calls` names callables that rules ask about though they train nothing: see `Rule.calls`.

        `imports` follows what the module imports of the repository; without it that is unknown.
        """
        self.tree = tree
        self._imports = imports
        self._calls = calls

    @cached_property
    def program(self) -> Program:
        """The events of every root of the module."""
        return Program(self.tree, self._calls, self._imports)

    @cached_property
    def tracking(self) -> Tracking:
        """Which values carry a graph."""
        return Tracking(self.program.observations.backwards)

    @cached_property
    def ownership(self) -> Ownership:
        """Whose gradients an event touches."""
        return Ownership(self.program, self.tracking)

    @cached_property
    def retained_graphs(self) -> RetainedGraphs:
        """Graphs that are retained for a second backward."""
        return RetainedGraphs(self.program, self.tracking)

    @cached_property
    def parameter_updates(self) -> ParameterUpdates:
        """Steps between a forward pass and its backward."""
        return ParameterUpdates(self.program, self.tracking)

    @cached_property
    def sure_graphs(self) -> SureGraphs:
        """The parts of graphs that are sure."""
        return SureGraphs(self.tracking, self.ownership, self.program.observations.frozen)
