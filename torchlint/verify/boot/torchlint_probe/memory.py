"""The memory and time of a step: on the GPU from its allocator and events, otherwise from the process."""

from __future__ import annotations

import os
import time
from typing import Any

import torch

_STATM = "/proc/self/statm"


class Meter:
    """Reads memory and times at step boundaries, without waiting for a GPU."""

    def __init__(self) -> None:
        self.device = "cpu"
        self._last = time.perf_counter()
        self._event: Any = None
        self._lap: tuple[Any, Any] = (None, None)
        self._pending: list[tuple[Any, Any, dict[str, Any]]] = []
        self._page = os.sysconf("SC_PAGESIZE") if hasattr(os, "sysconf") else 0
        self._statm = os.open(_STATM, os.O_RDONLY | os.O_CLOEXEC) if os.path.exists(_STATM) else -1

    def lap(self) -> float:
        """A step has ended: the milliseconds since the one before it, from the process clock."""
        now = time.perf_counter()
        last, self._last = self._last, now
        self._lap = self._event, None
        if torch.cuda.is_initialized():
            self._event = torch.cuda.Event(enable_timing=True)
            self._event.record()
            self._lap = self._lap[0], self._event
        return (now - last) * 1000

    def measure(self, record: dict[str, Any]) -> None:
        """Put memory in bytes into the record of the step that has ended, and on a GPU its time there, in time."""
        if self._lap[1] is not None:
            self._gpu(record)
        elif self._statm >= 0:
            resident = os.pread(self._statm, 64, 0).split()[1]
            record["memory"] = int(resident) * self._page

    def _gpu(self, record: dict[str, Any]) -> None:
        if self.device == "cpu":
            self.device = torch.cuda.get_device_name()
        stats = torch.cuda.memory_stats()
        record["memory"] = stats.get("allocated_bytes.all.current", 0)
        record["peak"] = stats.get("allocated_bytes.all.peak", 0)
        record["segments"] = stats.get("segment.all.current", 0)
        record["retries"] = stats.get("num_alloc_retries", 0)
        start, end = self._lap
        if start is not None:
            self._pending.append((start, end, record))
        self.settle()

    def settle(self, wait: bool = False) -> None:
        """Fill in the times of steps that the GPU has finished by now."""
        while self._pending and (wait or self._pending[0][1].query()):
            start, end, record = self._pending.pop(0)
            if wait:
                end.synchronize()
            record["ms"] = start.elapsed_time(end)
