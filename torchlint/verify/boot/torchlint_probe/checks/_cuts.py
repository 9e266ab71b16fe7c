"""The operators that end graphs, and the parameters behind them: why a parameter may never get a gradient."""

from __future__ import annotations

from typing import Any

import torch

from torchlint_probe.checks.check import Check
from torchlint_probe.graphs import leaves, nodes

_CUTTING = {
    getattr(torch.Tensor, name)
    for name in ("argmax argmin item tolist numpy detach long int bool eq ne gt lt ge le __float__ __array__").split()
} | {torch.argmax, torch.argmin}
CUTTING = tuple(_CUTTING)
_CALLS = 3
_LINES = 200


class _Line:
    """The calls of one line, and the parameters behind all of them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls = 0
        self.behind: set[int] | None = None


class Cuts:
    """Follows the graphs of the first values that each line cuts off."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self._lines: dict[int, _Line] = {}

    def cut(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """An operator has returned a value without a graph."""
        value = args[0] if args else None
        if not isinstance(value, torch.Tensor) or value.grad_fn is None or not torch.is_grad_enabled():
            return
        site = self._check.probe.sites.here()
        line = self._lines.get(site)
        if line is None:
            if len(self._lines) >= _LINES or not site:
                return
            line = self._lines[site] = _Line(_name(func))
        if line.name == "detach":
            line.name = _name(func)  # the probe itself may have come first
        if line.calls < _CALLS:
            line.calls += 1
            behind = set(map(id, leaves(nodes([value]))))
            line.behind = behind if line.behind is None else line.behind & behind

    def of(self, unfed: list[torch.Tensor]) -> tuple[str, int] | None:
        """The operator that ends the graphs of all these parameters, and its site, if there is one line only.

        Of several, the one with the fewest other parameters counts. `detach` is often meant, so others come first.
        """
        wanted = {id(leaf) for leaf in unfed}
        known = [(line, site) for site, line in self._lines.items() if line.behind and wanted <= line.behind]
        known = [pair for pair in known if pair[0].name != "detach"] or known
        fewest = min((len(line.behind or ()) for line, _ in known), default=0)
        found = [(line.name, site) for line, site in known if len(line.behind or ()) == fewest]
        return found[0] if len(found) == 1 else None


def _name(func: Any) -> str:
    return str(getattr(func, "__name__", "?")).strip("_")
