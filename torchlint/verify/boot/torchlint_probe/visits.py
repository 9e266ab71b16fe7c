"""Statements that raise, or do nothing: the number of their runs, and the objects that they did not change."""

from __future__ import annotations

from collections.abc import Sequence
from types import FrameType

import torch

from torchlint_probe.claim import values_of
from torchlint_probe.lines import Watch
from torchlint_probe.observer import LineObserver, Observer


class BackwardBody(Observer):
    """backward-arity: how often does the backward of the class run? Its errors are those of the backwards."""

    def watches(self) -> Sequence[Watch]:
        self.shown = self.claim.names[0][0]
        return (Watch(self.claim.file, self.claim.reach, self),)

    def enter(self, frame: FrameType) -> bool:
        self.counts["visits"] += 1
        return self.counts["visits"] < LineObserver.visits


class Discarded(LineObserver):
    """discarded-result: is the object of the call a tensor, and is it the same afterwards?"""

    def before(self, frame: FrameType) -> None:
        value = self._object(frame)
        self._version = value._version if isinstance(value, torch.Tensor) and not value.is_inference() else None

    def after(self, frame: FrameType) -> None:
        value = self._object(frame)
        if isinstance(value, torch.Tensor):
            self.counts["tensors"] += 1
            if self._version is not None:
                self.counts["changed"] += value._version != self._version
        elif value is not None:
            self.shown = type(value).__name__
            self.counts["modules" if isinstance(value, torch.nn.Module) else "others"] += 1

    def _object(self, frame: FrameType) -> object:
        return next(values_of(self.claim.names, frame), None)

    _version: int | None = None


class Moved(LineObserver):
    """parameter-lost-by-move: does the statement bind a leaf and a parameter?"""

    def after(self, frame: FrameType) -> None:
        for value in values_of(self.claim.names, frame):
            if isinstance(value, torch.Tensor):
                self.counts["leaves" if value.is_leaf else "lost"] += 1
                self.shown = str(value.device)
