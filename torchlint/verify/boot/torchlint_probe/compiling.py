"""The lines that `torch.compile` was compiling when the program failed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from torchlint_probe.sites import Sites

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_LINES = 2_000


def compiled_lines(traceback: TracebackType | None, sites: Sites) -> list[tuple[int, int]]:
    """File and line of the user's operations in the graphs that the frames of a traceback compile."""
    lines: dict[tuple[int, int], None] = {}
    for graph in _graphs(traceback):
        for node in graph.nodes:
            for path, line in _FRAME.findall(getattr(node, "stack_trace", None) or ""):
                number = sites.file_named(path)
                if number >= 0 and len(lines) < _LINES:
                    lines[number, int(line)] = None
    return list(lines)


def _graphs(traceback: TracebackType | None) -> Iterator[Any]:
    while traceback is not None:
        for value in list(traceback.tb_frame.f_locals.values()):
            if type(value).__name__.startswith("GraphModule") and hasattr(value, "graph"):
                yield value.graph
        traceback = traceback.tb_next
