"""The loss counts padding as targets, so the model mostly learns to predict padding.

The check looks at calls of `cross_entropy` and `nll_loss` with sequences of class numbers as targets. It reports a
problem if, in each of at least three calls, one number fills the ends of the sequences and occurs nowhere else, the
lengths differ, and the number makes up at least a fifth of the targets, although `ignore_index` is a different number.
The result is inconclusive, because a model may have to learn where a sequence ends. Losses without a reduction, and
losses with class weights, are not reported.

Source: `torch.nn.CrossEntropyLoss` in PyTorch's documentation, on `ignore_index`.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.nn import functional

from torchlint_probe.checks._loss_calls import LossLines, given_to
from torchlint_probe.checks.check import Check, Operated, Sighting

_SHARE = 0.2
_FEWEST = 4
_MOST = 500
_FLAT = (torch.Tensor.flatten, torch.Tensor.reshape, torch.Tensor.view, torch.flatten, torch.reshape)
_CONTIGUOUS = torch.Tensor.contiguous
_ADVICE = "set `ignore_index` to the number of the padding, unless the model should learn to predict it"


class PaddingInTargets(Check):
    """Reads the ends of target sequences."""

    name = "padding-in-targets"
    code = "TW305"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._lines = LossLines(probe)
        self._rows: dict[int, tuple[weakref.ref[torch.Tensor], torch.Tensor]] = {}
        """By the identity of flattened class numbers, the sequences before."""
        self._shares: dict[int, torch.Tensor] = {}

    def operators(self) -> Mapping[Any, Operated]:
        losses = dict.fromkeys((functional.cross_entropy, functional.nll_loss), self._operated)
        return {**losses, **dict.fromkeys((*_FLAT, _CONTIGUOUS), self._flattened)}

    def _flattened(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        rows = args[0] if args else None
        if result.dtype is torch.int64 and isinstance(rows, torch.Tensor) and len(self._rows) < _MOST:
            if rows.dim() == 2 and result.numel() == rows.numel():
                self._rows[id(result)] = weakref.ref(result), rows

    def _operated(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        _, target = given_to(args, kwargs)
        if not isinstance(target, torch.Tensor) or target.dtype is not torch.int64 or not result.requires_grad:
            return
        if (
            kwargs.get("reduction", "mean") == "none"
            or kwargs.get("weight", args[2] if len(args) > 2 else None) is not None
        ):
            return
        rows = self._sequences(target)
        if rows is not None and min(rows.shape) >= _FEWEST:
            ignored = kwargs.get("ignore_index", -100)
            site = self._lines.look(lambda: self._is_padded(rows, int(ignored)))
            self._shares[site] = (rows == rows[:, -1].mode().values).float().mean()

    def _sequences(self, target: torch.Tensor) -> torch.Tensor | None:
        """The sequences of a target, which may have been flattened."""
        for _ in range(2):
            if target.dim() == 2:
                return target
            made, rows = self._rows.get(id(target), (None, None))
            if made is None or made() is not target or rows is None:
                return None
            target = rows
        return None

    @staticmethod
    def _is_padded(rows: torch.Tensor, ignored: int) -> torch.Tensor:
        """Whether one number fills the ends of the sequences, and stands nowhere else; does not wait for the device."""
        padding = rows[:, -1].mode().values
        at = rows == padding
        ends = at.flip(1).long().cumprod(1).flip(1).bool()
        lengths = ends.sum(1)
        is_often = at.float().mean() >= _SHARE
        return (at == ends).all() & (lengths.max() > lengths.min()) & is_often & (padding != ignored)

    def after_step(self, optimizer: Any) -> None:
        self._rows.clear()

    def sightings(self) -> Iterator[Sighting]:
        for site, _ in self._lines.wrong():
            share = float(self._shares[site])
            message = (
                f"one number fills the ends of the target sequences, {share:.0%} of the targets: it looks like padding"
            )
            yield Sighting(site, message, {"share": share}, 0, _ADVICE)
