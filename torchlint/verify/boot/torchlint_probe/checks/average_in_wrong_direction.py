"""A trained network follows the network that should follow it: each step pulls its weights back to old values.

For each `copy_`, `add_` and `lerp_` into a trained parameter, the check asks whether the source is a parameter of
another network that ran and that no optimizer trains. It reports a problem if one line did so in at least eight steps,
for at least two parameters, and the other network never changed. The target should follow the trained network, not the
other way round. Programs that pull the weights towards stored tensors of no network (a regularizer) are not reported.

Source: Tarvainen and Valpola, "Mean teachers are better role models" (2017): the teacher is the average of the student.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from torchlint_probe.checks._names import leaves_of
from torchlint_probe.checks.check import Check, Operated, Sighting

_WRITES = (torch.Tensor.copy_, torch.Tensor.add_, torch.Tensor.lerp_)
_STEPS = 8
_MOST = 2_000
_VALUES = 8


class _Line:
    """The steps at which a line wrote trained parameters, and the first values of its sources."""

    def __init__(self) -> None:
        self.steps = 0
        self.parameters = 0
        self.sources: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self.is_right = False


class AverageInWrongDirection(Check):
    """Compares the memory of what is written and read with that of parameters."""

    name = "average-in-wrong-direction"
    code = "TW219"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._written: dict[int, dict[int, torch.Tensor]] = {}
        """By site, the memory written since the last step, and its sources."""
        self._lines: dict[int, _Line] = {}

    def operators(self) -> Mapping[Any, Operated]:
        return dict.fromkeys(_WRITES, self._wrote)

    def _wrote(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        source = args[1] if len(args) > 1 else None
        if not isinstance(source, torch.Tensor) or not self.probe.steps or result.grad_fn is not None:
            return
        if source.shape == result.shape and source.data_ptr() != result.data_ptr() and result.dim():
            written = self._written.setdefault(self.probe.sites.here(), {})
            if len(written) < _MOST:
                written[result.data_ptr()] = source

    def before_step(self, optimizer: Any) -> None:
        written, self._written = self._written, {}
        if not written:
            return
        trained = {leaf.data_ptr() for leaf in leaves_of(optimizer)}
        others = {
            leaf.data_ptr() for model in self.models for leaf in model.parameters() if not self.probe.checks.holds(leaf)
        }
        for site, pairs in written.items():
            line = self._lines.setdefault(site, _Line())
            own = {place: source for place, source in pairs.items() if place in trained}
            line.is_right |= len(own) < len(pairs) or any(item.data_ptr() not in others for item in own.values())
            if not line.is_right:
                line.steps += 1
                line.parameters = len(own)
                self._compare(line, own.values())

    def _compare(self, line: _Line, sources: Any) -> None:
        """Whether the sources still have their first values."""
        for source in sources:
            values = source.detach().reshape(-1)[:_VALUES].clone()
            first = line.sources.setdefault(source.data_ptr(), (source.detach(), values))[1]
            line.is_right |= not torch.equal(first, values)

    def sightings(self) -> Iterator[Sighting]:
        for site, line in list(self._lines.items()):
            if site and not line.is_right and line.steps >= _STEPS and line.parameters > 1:
                message = (
                    f"at {line.steps:,} steps, this wrote {line.parameters:,} parameters of the trained network from a "
                    "network that never changes: source and target are swapped"
                )
                yield Sighting(site, message, {"steps": line.steps, "parameters": line.parameters}, 0)
