"""Where the threads stand when the time is up, and for how long no step had ended by then."""

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
    """Looks once, at the deadline: soon after it the program is ended, and its threads are elsewhere."""

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
        """Evidence is about to be written: if the time is up, this is how things stand."""
        now = time.monotonic()
        if self.idle or now < self._deadline:
            return
        self.idle = now - self._last
        names = {thread.ident: thread.name for thread in threading.enumerate() if thread.name != _OWN}
        for number, frame in list(sys._current_frames().items())[:_THREADS]:
            site = self._sites.of_frame(frame) if number in names else 0
            if site:
                self.threads.append((names[number], site))
