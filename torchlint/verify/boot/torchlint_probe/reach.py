"""Was the code of a finding run at all?"""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType


class Reach:
    """Set by the first line that runs, which it may report to `tell`. After that the watch costs nothing."""

    def __init__(self, tell: Callable[[], object] = bool) -> None:
        self.reached = False
        self._tell = tell

    def enter(self, frame: FrameType) -> bool:
        is_first, self.reached = not self.reached, True
        if is_first:
            self._tell()
        return False
