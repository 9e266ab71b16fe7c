"""retain-graph-in-loop: does a later backward use the retained graph, and does the graph grow?"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch

from torchlint_probe.graphs import NODES, nodes

_KEY = "torchlint-retained"
_FIRST = 12
"""The number of retained graphs of each line that are examined in a row."""
_LOOKS = 8
"""The maximum number of later backwards that are searched for a retained graph."""


class Retained:
    """The fates of the graphs that one line retained, as far as they were examined."""

    def __init__(self) -> None:
        self.calls = self.in_a_row = 0
        self.reused = 0
        self.judged = 0
        self.sizes: list[int] = []


class Retention:
    """All retained graphs; a graph is recognised by what lies in its nodes' metadata."""

    def __init__(self) -> None:
        self.sites: dict[int, Retained] = {}
        self._open: dict[int, Retained] = {}
        self._looks: Counter[int] = Counter()
        self._number = 0

    def meet(self, roots: list[torch.Tensor], retaining: bool, site: int) -> int | None:
        """A backward or `grad` is about to run; returns the number of the graph that it retains at `site`, if any.

        In another backward, of a custom function, graphs live no longer than its call.
        """
        is_inner = torch._C._current_graph_task_id() != -1
        retained = self._at(site) if retaining and not is_inner else None
        if retained is None and not self._open:
            return None
        graph = nodes(roots)
        met = {number for node in graph for number in node.metadata.get(_KEY, ())}
        self._count(met)
        if retained is None:
            return None
        retained.sizes.append(len(graph) if len(graph) < NODES else NODES)
        self._number += 1
        self._open[self._number] = retained
        self._tag(graph, self._number)
        return self._number

    def _at(self, site: int) -> Retained | None:
        """The record of a line, if its retained graphs are examined."""
        retained = self.sites.setdefault(site, Retained())
        retained.calls += 1
        retained.in_a_row += 1
        return retained if retained.in_a_row <= _FIRST else None

    def extend(self, number: int, results: list[torch.Tensor]) -> None:
        """Add the graphs behind these tensors to a retained graph."""
        if number in self._open:
            self._tag(nodes(results), number)

    def rest(self) -> None:
        """Observation stops for a while: the fate of the last graphs stays unknown."""
        self._open.clear()
        self._looks.clear()
        for retained in self.sites.values():
            retained.in_a_row = 0

    def _count(self, met: set[int]) -> None:
        for number in list(self._open):
            retained = self._open[number]
            retained.judged += not self._looks[number]
            self._looks[number] += 1
            if number in met:
                retained.reused += 1
            elif self._looks[number] < _LOOKS:
                continue
            del self._open[number], self._looks[number]

    @staticmethod
    def _tag(graph: list[Any], number: int) -> None:
        for node in graph:
            if not hasattr(node, "variable"):  # a leaf's node is shared by all graphs
                node.metadata.setdefault(_KEY, set()).add(number)
