"""retain-graph-in-loop: does a later backward meet the graph that was retained, and does the graph grow?"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch

from torchlint_probe.graphs import NODES, nodes

_KEY = "torchlint-retained"
_FIRST = 12
"""The first so many retained graphs are looked at, then one in `_EVERY`."""
_EVERY = 20
_LOOKS = 8
"""A retained graph is looked for in so many of the following backwards, at most."""


class Retained:
    """What became of the graphs that one line retained."""

    def __init__(self) -> None:
        self.calls = 0
        self.looked_at = 0
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

    def meet(self, roots: list[torch.Tensor], retaining: bool, site: int) -> None:
        """A backward or `grad` is about to run; `retaining` says that it keeps the graph, at `site`."""
        retained = self._at(site) if retaining else None
        wanted = retained is not None and (retained.calls <= _FIRST or retained.calls % _EVERY == 0)
        if not wanted and not self._open:
            return
        graph = nodes(roots)
        met = {number for node in graph for number in node.metadata.get(_KEY, ())}
        self._count(met)
        if wanted and retained is not None:
            self._tag(graph, retained)

    def _at(self, site: int) -> Retained:
        retained = self.sites.setdefault(site, Retained())
        retained.calls += 1
        return retained

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

    def _tag(self, graph: list[Any], retained: Retained) -> None:
        retained.looked_at += 1
        retained.sizes.append(len(graph) if len(graph) < NODES else NODES)
        self._number += 1
        for node in graph:
            if not hasattr(node, "variable"):  # a leaf's node is shared by all graphs
                node.metadata.setdefault(_KEY, set()).add(self._number)
        self._open[self._number] = retained
