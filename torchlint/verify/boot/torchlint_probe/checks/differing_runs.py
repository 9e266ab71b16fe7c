"""Two runs of the program with the same seed compute different values.

For each operator that the program's Python code calls, the check records checksums of its inputs and results in both
runs, and compares them in order. It reports a problem at the first difference. The cause is the operator itself if its
inputs are equal, and otherwise whatever computed its input. Sets of strings have a different order in the second run,
as in any two runs without `PYTHONHASHSEED`. The check compares at most twenty thousand calls. It runs with `--twice`
only.

Source: "Reproducibility" in PyTorch's documentation.
"""

from __future__ import annotations

import zlib
from typing import Any

import torch

from torchlint_probe.checks.check import Check

_CALLS = 20_000


class DifferingRuns(Check):
    """Records checksums. They are compared after both runs."""

    name = "differing-runs"
    code = "TW402"
    is_on = False
    uses_lines = True

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self.calls: list[dict[str, Any]] = []

    def operated(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        if len(self.calls) < _CALLS and isinstance(result, torch.Tensor) and not _is_plain(func):
            given = [item for item in (*args, *kwargs.values()) if isinstance(item, torch.Tensor)]
            name = str(getattr(func, "__name__", "?"))
            # A tensor that was changed in place already has its new value, in both runs.
            sums = {"given": zlib.crc32(b"".join(map(_sum, given))), "result": zlib.crc32(_sum(result))}
            self.calls.append({"site": self.probe.sites.here(), "step": self.probe.steps, "name": name, **sums})


def _is_plain(func: Any) -> bool:
    """Whether nothing is computed: an attribute read, or an allocation of uninitialized memory."""
    name = getattr(func, "__name__", "")
    return name in ("__get__", "__set__", "detach", "size", "dim") or name.startswith(("empty", "new_empty"))


def _sum(tensor: torch.Tensor) -> bytes:
    try:
        values = tensor.detach().cpu().contiguous().reshape(-1)
        return zlib.crc32(values.view(torch.uint8).numpy().tobytes()).to_bytes(4, "big")
    except (RuntimeError, TypeError, NotImplementedError):  # sparse, quantized, or without values
        return b""
