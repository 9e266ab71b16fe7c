"""Notebooks as the tests need them: code cells, and now and then another one."""

from __future__ import annotations

import json
from typing import Any


def code(source: str | list[str]) -> dict[str, Any]:
    """A code cell of format 4; text becomes a list of lines, as Jupyter writes it."""
    lines = source.splitlines(keepends=True) if isinstance(source, str) else source
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": lines}


def markdown(source: str) -> dict[str, Any]:
    """A cell that is no code."""
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def document(*cells: str | list[str] | dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """A notebook of format 4 as JSON values; text, or a list of lines, is a code cell."""
    made = [cell if isinstance(cell, dict) else code(cell) for cell in cells]
    return {"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def notebook(*cells: str | list[str] | dict[str, Any], **metadata: Any) -> str:
    """The same as the text that Jupyter writes."""
    return json.dumps(document(*cells, **metadata), indent=1, ensure_ascii=False) + "\n"
