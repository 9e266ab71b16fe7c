"""The cells that ran in a session of IPython, and the notebook that it belongs to."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torchlint.files.notebook import SUFFIX
from torchlint.files.source import SourceError, SourceFile

NAME = f"session{SUFFIX}"
"""The name of a session's cells in messages; cell 3 is the one with the prompt `In [3]`."""


class Session:
    """The cells of a shell by prompt number. IPython calls `before_cell` and `after_cell` as its events."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._cell_of: dict[int, str] = {}
        """Which cell of the notebook ran under a prompt number, where the frontend says so."""
        self._running: int | None = None
        self._only_linted: set[int] = set()

    def before_cell(self, info: Any) -> None:
        if not info.store_history:
            return
        self._running = len(self._texts) + 1
        cell = getattr(info, "cell_id", None)
        if cell is not None:
            self._cell_of[self._running] = cell

    def after_cell(self, result: Any) -> None:
        if result.info.store_history:
            self._running = None

    def leave_out_current(self) -> None:
        """The cell that is running is linted, and does not run."""
        self._only_linted.add(self._number)

    def program(self) -> SourceFile:
        """All cells that ran so far, as a notebook."""
        return _notebook(self._ran())

    def program_with(self, cell: str) -> tuple[SourceFile, int]:
        """The cells that ran before the current one, then `cell` under its number; and that number.

        Where `cell` is what follows the line of its magic, that line counts too, as it does in the notebook.
        """
        number = self._number
        typed = next(iter(self._texts[number - 1 :]), "")
        shown = typed if typed.rstrip().endswith(cell.rstrip()) else cell
        return _notebook([*self._ran()[: number - 1], shown]), number

    @property
    def _texts(self) -> list[str]:
        """The typed texts, by prompt number from 1."""
        return list(self._shell.history_manager.input_hist_raw)[1:]

    @property
    def _number(self) -> int:
        """The prompt number of what is running; outside of a cell the next one."""
        return self._running or len(self._texts) + 1

    def _ran(self) -> list[str]:
        """The texts by prompt number from 1: empty for what did not run, or ran again in another form."""
        texts = self._texts
        cells = [self._cell_of.get(number, text) for number, text in enumerate(texts, 1)]
        last = dict(zip(cells, texts, strict=True))
        again = self._cell_of.get(self._number)
        return [
            text if last[cell] == text and cell != again and number not in self._only_linted else ""
            for number, (cell, text) in enumerate(zip(cells, texts, strict=True), 1)
        ]

    # -- the file ---------------------------------------------------------------------------------------

    @property
    def file(self) -> Path | None:
        """The notebook on disk, where the frontend says which it is: Visual Studio Code, or the server of Jupyter."""
        named = (self._shell.user_ns.get("__vsc_ipynb_file__"), os.environ.get("JPY_SESSION_NAME"))
        paths = (Path(name) for name in named if isinstance(name, str) and name.endswith(SUFFIX))
        return next((path for path in paths if path.is_file()), None)

    def is_saved(self, source: SourceFile) -> bool:
        """Whether a notebook on disk has the cell that is running as it is."""
        current = self._texts[-1].strip()
        try:
            return any(cell.text.strip() == current for cell in source.cells)
        except SourceError:
            return True  # which is a finding


def _notebook(cells: Sequence[str]) -> SourceFile:
    made = [{"cell_type": "code", "source": text} for text in cells]
    return SourceFile.of_text(NAME, json.dumps({"nbformat": 4, "cells": made}))
