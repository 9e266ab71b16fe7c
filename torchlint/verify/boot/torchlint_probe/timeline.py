"""One record for each step; in a long run for every second, fourth, eighth step."""

from __future__ import annotations

from typing import Any

_RECORDS = 200
"""More points than a plot needs cost every step something."""


class Timeline:
    """Records in the order of steps, `stride` steps apart."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.stride = 1

    def wants(self, step: int) -> bool:
        """Whether the record of a step is kept."""
        return step % self.stride == 0

    def add(self, step: int, record: dict[str, Any]) -> None:
        """Keep the record of a step. It is kept itself: some of its numbers are known later."""
        record["step"] = step
        self.records.append(record)
        if len(self.records) >= _RECORDS:
            self.records = self.records[1::2]
            self.stride *= 2
