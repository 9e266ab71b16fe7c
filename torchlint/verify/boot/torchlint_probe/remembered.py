"""Lines of graphs in unobserved steps, taken from an observed graph of the same form."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Any

from torchlint_probe.operators import Origin, note, origin

_GRAPHS = 8
_NODES = 2_000
_RUN = 4
"""The number of nodes in a row of equal kinds that count as the same, where graphs differ."""
_PATHS = 8
_LENGTH = 200


class Remembered:
    """The kinds and origins of the nodes of some graphs, in the order in which these were made; the newest first."""

    def __init__(self) -> None:
        self._graphs: list[tuple[list[str], list[Origin]]] = []
        self._paths: dict[str, list[_Path]] = {}
        """By the kind of the last node, ways to nodes of interest."""

    def remember(self, graph: list[Any], is_of_interest: Any) -> None:
        """A graph was observed, breadth first from its root."""
        ordered = in_order(graph)
        names = [node.name() for node in ordered]
        if not names or len(names) > _NODES or any(names == known for known, _ in self._graphs):
            return
        self._graphs = [(names, [origin(node) for node in ordered]), *self._graphs][:_GRAPHS]
        ways = self._paths.setdefault(graph[0].name(), [])
        ways += _paths(graph, is_of_interest)
        del ways[:-_PATHS]

    def recall(self, graph: list[Any]) -> None:
        """Set the origins in an unobserved graph, as far as it equals an observed one."""
        ordered = in_order(graph)
        names = [node.name() for node in ordered]
        if len(names) > _NODES:
            return
        for known, origins in self._graphs:
            if known == names:
                for node, made in zip(ordered, origins, strict=True):
                    note(node, made)
                return
        matches = [(SequenceMatcher(None, known, names, False), origins) for known, origins in self._graphs]
        if matches:
            matcher, origins = max(matches, key=lambda pair: pair[0].ratio())
            for start, place, size in matcher.get_matching_blocks():
                for offset in range(size if size >= _RUN else 0):
                    note(ordered[place + offset], origins[start + offset])

    def of_interest(self, root: Any) -> list[tuple[Any, Origin]]:
        """Nodes of interest behind the last node of a graph, and where they were made."""
        found = ((path.follow(root), path.made) for path in self._paths.get(root.name(), ()))
        return [(node, made) for node, made in found if node is not None]


class _Path:
    """The way to a node: which input at each node before it."""

    def __init__(self, turns: list[int], name: str, made: Origin) -> None:
        self._turns = turns
        self._name = name
        self.made = made

    def follow(self, root: Any) -> Any:
        """The node at the end of the way, if it is of the same kind."""
        node = root
        for turn in self._turns:
            inputs = node.next_functions
            node = inputs[turn][0] if turn < len(inputs) else None
            if node is None:
                return None
        return node if node.name() == self._name else None


def in_order(graph: list[Any]) -> list[Any]:
    """The nodes in the order in which they were made, without those of leaves."""
    inner = [node for node in graph if not hasattr(node, "variable")]
    return sorted(inner, key=lambda node: int(node._sequence_nr()))


def _paths(graph: list[Any], is_of_interest: Any) -> list[_Path]:
    ways: dict[Any, list[int]] = {graph[0]: []}
    found = []
    for node in graph:
        way = ways.get(node)
        if way is None or len(way) >= _LENGTH:
            continue
        if is_of_interest(node):
            found.append(_Path(way, node.name(), origin(node)))
        for turn, (following, _) in enumerate(node.next_functions):
            if following is not None and following not in ways:
                ways[following] = [*way, turn]
    return found[:_PATHS]
