"""Packages that some tests need and that may be missing; such a test has the mark `needs`."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any


def optional(name: str) -> Any:
    """The module, or None where it is not installed."""
    return import_module(name) if find_spec(name) else None
