"""PyTorch's warnings from calls that the probe makes for the program: they name the program's line."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch

_OWN = os.path.join(os.path.dirname(__file__), "")
_TORCH = os.path.join(os.path.dirname(torch.__file__), "")
_REGISTRY = "__warningregistry__"


def name_lines_of_program() -> None:
    """Let warnings that would name a line of the probe name the line that called torch.

    PyTorch warns at the innermost frame of Python, and this is the probe's. The filters of the program decide again,
    since they may name one of its modules.
    """
    original: Callable[[Any], None] | None = getattr(warnings, "_showwarnmsg", None)
    if original is None:
        return

    def show(message: Any) -> None:
        frame = _caller(sys._getframe(1)) if message.filename.startswith(_OWN) else None
        if frame is None:
            original(message)
        else:
            _warn_at(frame, message)

    warnings._showwarnmsg = show  # type: ignore[attr-defined]


def _caller(innermost: FrameType) -> FrameType | None:
    """The first frame outside of the probe and torch; the probe forgets that it has issued the warning."""
    frame: FrameType | None = innermost
    while frame is not None and frame.f_code.co_filename.startswith((_OWN, _TORCH, "<frozen")):
        if frame.f_code.co_filename.startswith(_OWN):
            frame.f_globals.pop(_REGISTRY, None)
        frame = frame.f_back
    return frame


def _warn_at(frame: FrameType, message: Any) -> None:
    """Issue the warning at the line of a frame, as if it had not been issued before."""
    registry = getattr(warnings, "onceregistry", {})
    registry.pop((str(message.message), message.category), None)
    warnings.warn_explicit(
        message.message,
        message.category,
        frame.f_code.co_filename,
        frame.f_lineno,
        frame.f_globals.get("__name__"),
        frame.f_globals.setdefault(_REGISTRY, {}),
        None,
        message.source,
    )
