"""empty-cache-in-loop and anomaly-detection-left-on: how often, for how long, at what price."""

from __future__ import annotations

import time
from typing import Any

import torch


class Emptied:
    """Calls of `empty_cache` from one line."""

    def __init__(self) -> None:
        self.calls = 0
        self.seconds = 0.0
        self.released = 0


class Caches:
    """All calls of `empty_cache`."""

    def __init__(self) -> None:
        self.sites: dict[int, Emptied] = {}
        self.seconds = 0.0

    def call(self, original: Any, site: int) -> None:
        """Empty the cache for the program, and measure the released bytes and the time."""
        emptied = self.sites.setdefault(site, Emptied())
        on_gpu = torch.cuda.is_initialized()
        before = torch.cuda.memory_reserved() if on_gpu else 0
        start = time.perf_counter()
        original()
        spent = time.perf_counter() - start
        emptied.calls += 1
        emptied.seconds += spent
        self.seconds += spent
        if on_gpu:
            emptied.released += before - torch.cuda.memory_reserved()


class Anomaly:
    """Whether anomaly detection is on, who switched it on, and what steps cost with and without it.

    The price is measured on alternating steps, only on the last ones before the budget stops the program.
    """

    def __init__(self) -> None:
        self.sites: dict[int, int] = {}
        self.off_sites: set[int] = set()
        self.library_sites: set[int] = set()
        """Sites at which the program called a library that switched it on."""
        self.site = 0
        self.steps_on = 0
        self.steps_off = 0
        self.on: list[float] = []
        self.off: list[float] = []
        self._paused = self._in_backward = False
        self._check_nan = True
        self._set: Any = None

    def call(
        self, original: Any, site: int, mode: bool, by_library: bool, arguments: tuple[Any, ...], keywords: Any
    ) -> None:
        """The program, or a library that it calls, switches it."""
        self._paused = False
        self._set = original
        original(mode, *arguments, **keywords)
        if mode:
            self.site = site
            self.sites.setdefault(site, 0)
            if by_library:
                self.library_sites.add(site)
        else:
            self.off_sites.add(site)

    def before_backward(self) -> None:
        """A backward begins: what is on now counts, even if it is off again at the end of the step."""
        self._in_backward |= torch.is_anomaly_enabled()

    def step(self, milliseconds: float, measure: bool) -> bool:
        """A step has ended; returns whether it ran with anomaly detection."""
        enabled = torch.is_anomaly_enabled()
        used, self._in_backward = enabled or self._in_backward, False
        if used or self._paused:
            self.steps_on += 1
            self.sites[self.site] = self.sites.get(self.site, 0) + 1
            (self.off if self._paused else self.on).append(milliseconds)
        else:
            self.steps_off += 1
        if self._paused:
            self._resume()
        elif enabled and measure and self._set is not None:
            self._check_nan = torch.is_anomaly_check_nan_enabled()
            self._set(False)
            self._paused = True
        return used

    def _resume(self) -> None:
        self._paused = False
        if self._set is not None:
            self._set(True, self._check_nan)
