"""Gradients grow from layer to layer on their way back, so the first layers get a thousand times more.

In the first twenty backward passes, the check computes the root mean square of the gradient that each layer with a
weight matrix gets. It reports a problem if, in ten passes in a row, the gradient grows by at least half at each layer
of a path through six or more layers, and a thousandfold in total. Each layer multiplies the gradient, so depth makes it
explode. The variance of the weights is too large for their width, and nothing normalizes. The check skips layers that
run more than once in a pass, as in a recurrent network, and layers that are compiled or checkpointed.

Source: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks" (2010), and He,
Zhang, Ren and Sun, "Delving Deep into Rectifiers" (2015), section 2.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from torchlint_probe.checks.check import Check, Sighting
from torchlint_probe.contained import contained
from torchlint_probe.operators import Origin, origin
from torchlint_probe.values import dense

_BACKWARDS = 10
_MOST_BACKWARDS = 20
_LAYERS = 6
_GROWTH = 1.5
_TOTAL = 1000.0
_WEIGHTED = ("Addmm", "Mm", "Linear", "Convolution", "MkldnnConvolution")
"""Operators that take a weight matrix,"""
_TURNED = ("TBackward", "TransposeBackward", "PermuteBackward")
"""and operators that may come between it and its parameter."""


class _Way(NamedTuple):
    """A path back on which gradients grow at each layer: its length, its first and last gradient, and its end."""

    layers: int = 0
    start: float = 0.0
    end: float = 0.0
    made: Origin = Origin()

    @property
    def is_explosion(self) -> bool:
        return self.layers >= _LAYERS and self.end >= _TOTAL * self.start

    def through(self, size: float, made: Origin) -> _Way:
        """The path extended by a layer with a gradient of this size; a new path where the gradient does not grow."""
        if self.layers and _GROWTH * self.end <= size < float("inf"):
            return _Way(self.layers + 1, self.start, size, made)
        return _Way(int(0 < size < float("inf")), size, size, made)


class GradientsGrowByLayer(Check):
    """Reads the gradients that graph nodes receive."""

    name = "gradients-grow-by-layer"
    code = "TW109"
    uses_lines = True

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._graph: list[Any] = []
        self._given: list[_Given] = []
        self._left = _MOST_BACKWARDS
        self._row = 0
        self._first_step = -1
        self._seen: Sighting | None = None

    def before_backward(self, roots: list[torch.Tensor], site: int) -> None:
        self._forget()
        if self._seen is None and self._left > 0:
            graph = self.probe.checks.graph_of(roots)
            layers = _layers(graph)
            if len(layers) >= _LAYERS:
                self._graph, self._given = graph, [_Given(self.probe, node) for node in layers]

    def after_backward(self, site: int) -> None:
        if not self._given:  # a loss with fewer layers tells nothing about another loss
            return
        self._left -= 1
        way = _steepest(self._graph, _sizes(self._given))
        self._forget()
        self._row = self._row + 1 if way.is_explosion else 0
        self._first_step = self.probe.steps if self._row == 1 else self._first_step
        if self._row == _BACKWARDS:
            self._seen = self._sighting(way, site)

    def backward_failed(self, roots: list[torch.Tensor], error: Exception, site: int) -> None:
        self._forget()

    def _forget(self) -> None:
        for given in self._given:
            given.handle.remove()
        self._graph, self._given = [], []

    def _sighting(self, way: _Way, site: int) -> Sighting:
        growth = way.end / way.start
        last = "the first of them" if way.made.module is None else self.models.name(way.made.module)
        message = f"gradients grow {growth:,.0f}-fold on their way back through {way.layers} layers, up to {last}"
        numbers = {"growth": growth, "layers": way.layers}
        return Sighting(way.made.site or site, message, numbers, self._first_step)

    def sightings(self) -> Iterator[Sighting]:
        if self._seen is not None:
            yield self._seen


class _Given:
    """The size of the gradient that a node receives in a backward."""

    def __init__(self, probe: Any, node: Any) -> None:
        self._probe = probe
        self.node = node
        self.size: torch.Tensor | None = None
        self.handle = node.register_prehook(self)

    @property
    def trouble_of(self) -> Any:
        return self._probe

    @contained
    def __call__(self, gradients: Any) -> None:
        gradient = gradients[0]
        if gradient is not None and gradient.numel():
            values = dense(gradient).detach()
            wide = torch.promote_types(values.dtype, torch.float32)
            self.size = torch.linalg.vector_norm(values, dtype=wide).float() / gradient.numel() ** 0.5


def _layers(graph: Sequence[Any]) -> list[Any]:
    """The nodes that take a weight matrix which no other node takes."""
    weights = [(node, _weight(node)) for node in graph if node.name().startswith(_WEIGHTED)]
    uses = Counter(id(weight) for _, weight in weights)
    return [node for node, weight in weights if weight is not None and uses[id(weight)] == 1]


def _weight(node: Any) -> torch.Tensor | None:
    """The parameter with two dimensions or more that a node takes."""
    for before, _ in node.next_functions:
        if before is not None and before.name().startswith(_TURNED):
            before = before.next_functions[0][0]
        leaf: torch.Tensor | None = getattr(before, "variable", None)
        if leaf is not None and leaf.dim() > 1:
            return leaf
    return None


def _sizes(given: Sequence[_Given]) -> dict[Any, float]:
    """The gradient sizes by node; all of them cost one wait for the device."""
    seen = [(item.node, item.size) for item in given if item.size is not None]
    if len({size.device for _, size in seen}) != 1:
        return {}
    return dict(zip((node for node, _ in seen), torch.stack([size for _, size in seen]).tolist(), strict=True))


def _steepest(graph: Sequence[Any], sizes: Mapping[Any, float]) -> _Way:
    """The longest path on which gradients grow by the required factor; results come before their inputs."""
    found = _Way()
    ways: dict[Any, _Way] = {}
    for node in sorted(graph, key=lambda node: -int(node._sequence_nr())):
        way = ways.pop(node, _Way())
        if node in sizes:
            way = way.through(sizes[node], origin(node))
            if way.is_explosion and way.layers > found.layers:
                found = way
        for before, _ in node.next_functions:
            if before is not None and way.layers > ways.get(before, _Way()).layers:
                ways[before] = way
    return found
