"""One record for each step; in a long run for every second, fourth, eighth step."""

from __future__ import annotations

from typing import Any

_RECORDS = 2_000


class Timeline:
    """Records in the order of steps, `stride` steps apart."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.stride = 1

    def add(self, step: int, record: dict[str, Any]) -> None:
        """Keep the record of a step, or not. It is kept itself: some of its numbers are known later."""
        if step % self.stride:
            return
        record["step"] = step
        self.records.append(record)
        if len(self.records) >= _RECORDS:
            self.records = self.records[1::2]
            self.stride *= 2
