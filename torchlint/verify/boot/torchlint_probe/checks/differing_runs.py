"""Two runs of the program with the same seed do not compute the same.

Asks each operator that the program's Python code calls, in both runs, for checksums of what it gets and gives, and
compares them in their order. Yes at the first that differs: the operator itself, if it got the same, or what made its
input, if that was other data. Sets of texts are in another order in the second run, as they are from one run to the
next without `PYTHONHASHSEED`. Up to twenty thousand calls are compared. It is asked with `--twice` only.

Source: "Reproducibility" in PyTorch's documentation.
"""

from __future__ import annotations

import zlib
from typing import Any

import torch

from torchlint_probe.checks.check import Check

_CALLS = 20_000


class DifferingRuns(Check):
    """Notes checksums; they are compared once both runs are over."""

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
            # What is changed in place has its new value by now, in both runs.
            sums = {"given": zlib.crc32(b"".join(map(_sum, given))), "result": zlib.crc32(_sum(result))}
            self.calls.append({"site": self.probe.sites.here(), "step": self.probe.steps, "name": name, **sums})


def _is_plain(func: Any) -> bool:
    """Whether nothing is computed: an attribute is read, or memory taken that holds whatever it held before."""
    name = getattr(func, "__name__", "")
    return name in ("__get__", "__set__", "detach", "size", "dim") or name.startswith(("empty", "new_empty"))


def _sum(tensor: torch.Tensor) -> bytes:
    try:
        values = tensor.detach().cpu().contiguous().reshape(-1)
        return zlib.crc32(values.view(torch.uint8).numpy().tobytes()).to_bytes(4, "big")
    except (RuntimeError, TypeError, NotImplementedError):  # sparse, quantized, or without values
        return b""
