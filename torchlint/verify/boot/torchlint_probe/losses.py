"""The sum of the losses that went backward at each step, read without waiting for a GPU."""

from __future__ import annotations

from typing import Any

import torch


class Losses:
    """Losses of the step that is running, and of those whose values are still to be read."""

    def __init__(self) -> None:
        self._running: list[torch.Tensor] = []
        self._pending: list[tuple[dict[str, Any], list[torch.Tensor]]] = []

    def add(self, roots: list[torch.Tensor]) -> None:
        """These go backward."""
        for root in roots:
            value = getattr(root, "_local_tensor", root).detach()  # only the local part of a sharded loss
            if value.numel() == 1 and not value.is_complex():
                self._running.append(value.clone())

    def end_step(self, record: dict[str, Any]) -> None:
        """The step has ended; its loss is put into `record` as soon as it is available."""
        if self._running:
            self._pending.append((record, self._running))
            self._running = []

    def drop(self) -> None:
        """The step has ended, and its loss is not needed."""
        self._running = []

    def settle(self, wait: bool) -> None:
        """Read what is there already; all if `wait`."""
        pending, self._pending = self._pending, []
        for record, values in pending:
            if wait or all(value.device.type == "cpu" for value in values):
                record["loss"] = sum(float(value) for value in values)
            else:
                self._pending.append((record, values))
