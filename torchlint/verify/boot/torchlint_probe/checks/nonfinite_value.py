"""A loss or a gradient is infinite or not a number: the first time, and the line that made it so.

Asks before each backward whether the loss is finite, and before each step whether the gradients are. Yes if one is
not. The graph of such a loss is searched, in the order in which it was made, for the first value that it has saved and
that is not finite: the line of the operator that made it is reported, with the module that it ran in, or that of the
backward if it was not seen; if it has no graph, the next step is searched for the operator that makes one. Of gradients
the first operator is reported whose backward gave one from finite ones. A step that a gradient scaler leaves out is
none. Anomaly detection is not needed. On a GPU it is asked at the first ten steps and every tenth only.

Source: "Autograd mechanics, numerical accuracy" and `torch.autograd.detect_anomaly` in PyTorch's documentation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from torchlint_probe.checks._first_nan import FirstNan
from torchlint_probe.checks.check import Check, Sighting
from torchlint_probe.graphs import nodes
from torchlint_probe.operators import Origin, origin
from torchlint_probe.saved import saved_by_name
from torchlint_probe.values import dense

_RISKY = (
    "Sqrt",
    "Rsqrt",
    "Pow",
    "Div",
    "Log",
    "Acos",
    "Asin",
    "Atan2",
    "Norm",
    "LinalgVectorNorm",
    "Std",
    "Var",
    "Cdist",
)
"""Operators that may have such gradients, as their names begin."""
_TRANSPARENT = ("Sum", "Mean", "Add", "Sub", "Neg", "View", "Reshape", "Squeeze", "Unsqueeze", "Expand", "Transpose")
"""Operators that save nothing of their values: what they give is finite where what they get is, as good as always."""


_POSITIONS = {"_saved_self": 0, "_saved_other": 1, "_saved_mat1": 1, "_saved_mat2": 2, "_saved_input": 0}
"""Which argument of an operator it has saved under a name."""


class NonfiniteValue(Check):
    """Looks at losses and gradients; at graphs only where something is wrong."""

    name = "nonfinite-value"
    code = "TW101"
    uses_lines = True

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._seen: Sighting | None = None
        self._site = 0
        self._flags: list[tuple[str, Origin, torch.Tensor]] = []
        """Operators, where they were called, and whether each made a gradient that is not finite of finite ones."""
        self._search = FirstNan(probe)

    @property
    def _asks(self) -> bool:
        return self._seen is None and (self.probe.meter.device == "cpu" or self.probe.is_measured)

    def before_backward(self, roots: list[torch.Tensor], site: int) -> None:
        self._site, self._flags = site, []
        self._end_search()
        if not self._asks:
            return
        bad = next((root for root in roots if not _is_finite(root)), None)
        if bad is not None:
            self._seen = self._of_loss(bad, site)
            self._search.look(self._seen is not None and self._seen.site == site)
            return
        for node in self.probe.checks.graph_of(roots):
            if _is_risky(node):
                node.register_hook(_GradientOf(self._flags, str(node.name()), origin(node)))

    def _end_search(self) -> None:
        """What made a loss that is not a number had no graph: it was looked for in the step after it."""
        if self._search.found is not None and self._seen is not None:
            name, made = self._search.found
            message = f"the loss is not a number: `{name}` made the first value that is not, without a graph"
            self._seen = Sighting(made.site, message + self._inside(made), {}, self._seen.first_step)
        self._search.look(False)

    @property
    def maker(self) -> tuple[str, Origin] | None:
        """The operator that gave the first gradient that is not finite in the last backward."""
        return next(((name, where) for name, where, is_first in self._flags if bool(is_first)), None)

    def _of_loss(self, root: torch.Tensor, site: int) -> Sighting | None:
        node, what = _first_bad(root)
        if node is None and root.grad_fn is not None and root.grad_fn.name().startswith("Mul"):
            return None  # a loss that was scaled up too far: the gradient scaler leaves the step out
        made = Origin() if node is None else origin(node)
        value = "not a number" if bool(torch.isnan(dense(root)).any()) else "infinite"
        message = f"the loss is {value}: {what}{self._inside(made)}"
        return Sighting(made.site or site, message, {}, self.probe.steps)

    def _inside(self, made: Origin) -> str:
        """The module that ran, as the end of a sentence."""
        return "" if made.module is None else f", in {self.models.name(made.module)}"

    def before_step(self, optimizer: Any) -> None:
        if not self._asks:
            return
        gradients = self.probe.checks.gradients_of(optimizer)
        leaves = gradients.leaves
        if gradients.norms and all(map(math.isfinite, gradients.norms)):
            return  # a norm may be too large for numbers that are not
        bad = [leaf for leaf in leaves if not _is_finite(leaf.grad)]
        if not bad:
            return
        weights = [leaf for leaf in bad if not _is_finite(leaf)]
        made, self._flags = self.maker, []
        count = f"the gradients of {len(bad):,} of {len(leaves):,} parameters are not finite, although the loss is"
        if made is not None and not weights:
            operator, where = made
            count += f": `{operator}` gave the first one{self._inside(where)}"
            self._seen = Sighting(where.site or self._site, count, {"parameters": len(bad)}, self.probe.steps)
        else:
            self._seen = Sighting(self._site, count, {"parameters": len(bad)}, self.probe.steps)

    def sightings(self) -> Iterator[Sighting]:
        if self._seen is not None and self._seen.site:
            yield self._seen


def _is_risky(node: Any) -> bool:
    """Whether the gradient of an operator may not be finite although all values are."""
    name = node.name()
    if not name.startswith(_RISKY) or name.startswith("LogSoftmax"):
        return False
    exponent = getattr(node, "_saved_exponent", None)
    return not (isinstance(exponent, (int, float)) and exponent >= 1)


class _GradientOf:
    """The hook of a node: whether it makes a gradient that is not finite of finite ones, without waiting for a GPU."""

    def __init__(self, flags: list[tuple[str, Origin, torch.Tensor]], name: str, made: Origin) -> None:
        self._flags, self._name, self._made = flags, name, made

    def __call__(self, given: Any, taken: Any) -> None:
        given, taken = ([item for item in items if item is not None] for items in (given, taken))
        if given and taken:
            bad = ~torch.stack([torch.isfinite(item).all() for item in given]).all()
            fine = torch.stack([torch.isfinite(item).all() for item in taken]).all()
            self._flags.append((self._name, self._made, bad & fine))


def _is_finite(tensor: Any) -> bool:
    values = dense(tensor).detach()
    return bool(torch.isfinite(values).all()) if values.is_floating_point() or values.is_complex() else True


def _first_bad(root: torch.Tensor) -> tuple[Any, str]:
    """The node that made the first value which is not finite, and what it is."""
    graph = sorted(nodes([root]), key=lambda node: int(node._sequence_nr()))
    for node in graph:
        for name, value in saved_by_name(node):
            if not _is_finite(value):
                return _maker(node, name, value)
    made = next((node for node in _opaque(root.grad_fn) if _makes(node)), None)
    return (None, "its origin was not seen") if made is None else (made, f"`{made.name()}` made it")


def _opaque(root: Any) -> list[Any]:
    """The nearest nodes below that may have made what is not finite of values that are."""
    found, open_nodes, seen = [], [root], set()
    while open_nodes:
        node = open_nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node.name().startswith(_TRANSPARENT):
            open_nodes += [item for item, _ in node.next_functions]
        else:
            found.append(node)
    return found


def _makes(node: Any) -> bool:
    """Whether a node gives what is not finite, as far as that shows in what it has saved."""
    saved = dict(saved_by_name(node))
    divisor, value = saved.get("_saved_other"), saved.get("_saved_self")
    if node.name().startswith("Div") and divisor is not None:
        return bool((divisor == 0).any())
    if value is None or not node.name().startswith(("Log", "Pow", "Reciprocal")):
        return False
    if node.name().startswith("Pow"):
        return not _is_finite(value.pow(getattr(node, "_saved_exponent", 1)))
    return bool((value <= 0).any() if node.name().startswith("Log") else (value == 0).any())


def _maker(node: Any, name: str, value: torch.Tensor) -> tuple[Any, str]:
    """Of a value that a node has saved: the node itself if it is a result, else the node that it came from."""
    shape = f"of shape {tuple(value.shape)}"
    before = [item for item, _ in node.next_functions]
    position = _POSITIONS.get(name)
    if name in ("_saved_result", "_saved_output", "_saved_out"):
        maker = node
    elif position is not None and position < len(before):
        maker = before[position]
    else:
        maker = max(
            (item for item in before if item is not None), key=lambda item: int(item._sequence_nr()), default=None
        )
    if maker is None or hasattr(maker, "variable"):
        what = "a parameter" if maker is not None else "a value without a graph"
        return node, f"{what} that `{node.name()}` takes is not finite, {shape}"
    return maker, f"`{maker.name()}` made the first value that is not finite, {shape}"
