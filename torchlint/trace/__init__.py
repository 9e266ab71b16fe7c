"""Traces: all that the model saw in a file as plain data, for people and for machines."""

from __future__ import annotations

from torchlint.trace.document import FileTrace
from torchlint.trace.lowering import trace

__all__ = ["FileTrace", "trace"]
