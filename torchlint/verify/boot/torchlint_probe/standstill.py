"""The lines of the threads when the time is up, and the time since the last step."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchlint_probe.sites import Sites

_THREADS = 20
_OWN = "torchlint"


class Standstill:
    """Reads once, at the deadline: soon after it the program ends, and its threads are elsewhere."""

    def __init__(self, deadline: float, sites: Sites) -> None:
        self._deadline = deadline
        self._sites = sites
        self._last = time.monotonic()
        self.idle = 0.0
        self.threads: list[tuple[str, int]] = []

    def move(self) -> None:
        """A step has ended."""
        self._last = time.monotonic()

    def look(self) -> None:
        """Evidence is about to be written: read the threads if the time is up."""
        now = time.monotonic()
        if self.idle or now < self._deadline:
            return
        self.idle = now - self._last
        names = {thread.ident: thread.name for thread in threading.enumerate() if thread.name != _OWN}
        for number, frame in list(sys._current_frames().items())[:_THREADS]:
            site = self._sites.of_frame(frame) if number in names else 0
            if site:
                self.threads.append((names[number], site))
