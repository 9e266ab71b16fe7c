"""The gradient scaler halves its scale again and again, so it skips almost every step.

The check reads the scale at each update of a `torch.amp.GradScaler`. It reports a problem if the scale has fallen below
1, or if at least ten updates in a row skipped their step. The first few skipped steps of a run are normal, because the
scale starts high on purpose. A scale below 1 makes small gradients even smaller. The usual cause is a loss or gradient
that is infinite or NaN at every step. The reported line is the operator that computed the last of these values, if
`nonfinite-value` knows it, and otherwise the update.

Source: "Automatic Mixed Precision package, gradient scaling" and the AMP recipe's "Troubleshooting" in PyTorch's
documentation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from torchlint_probe.checks.check import Check, Sighting, Telling
from torchlint_probe.checks.nonfinite_value import NonfiniteValue

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_IN_A_ROW = 10
_LEAST = 1.0


class LossScaleCollapse(Check):
    """Counts how often the scale falls."""

    name = "loss-scale-collapse"
    code = "TW102"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._row = self._updates = 0
        self._last = float("inf")
        self._seen: Sighting | None = None

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        scaler = getattr(torch.amp, "GradScaler", None)
        if scaler is not None:
            hooks.replace(scaler, "update", Telling(probe, cls, "updated"))

    def updated(self, scaler: Any) -> None:
        """The scale may have changed."""
        if not scaler.is_enabled() or self._seen is not None:
            return
        scale = float(scaler.get_scale())
        self._updates += 1
        self._row = self._row + 1 if scale < self._last else 0
        self._last = scale
        if self._row >= _IN_A_ROW or scale < _LEAST:
            message = f"the scale has fallen to {scale:g} in {self._updates:,} updates, {self._row:,} times in a row"
            numbers = {"scale": scale, "updates": self._updates, "skipped_in_a_row": self._row}
            maker = next((check.maker for check in self.probe.checks.all if isinstance(check, NonfiniteValue)), None)
            site = self.probe.sites.here()
            if maker is not None and maker[1].site:
                message, site = f"{message}: `{maker[0]}` returns gradients that are not finite", maker[1].site
            self._seen = Sighting(site, message, numbers, self.probe.steps)

    def sightings(self) -> Iterator[Sighting]:
        if self._seen is not None:
            yield self._seen
