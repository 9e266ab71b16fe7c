"""Data that is kept between two lints of a document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.syntax.incremental import Pieces

if TYPE_CHECKING:
    from torchlint.engine.run_rules import Walk


class DocumentCache:
    """The statements of earlier forms, as LibCST parsed them, and what the rules reported of the latest form."""

    def __init__(self) -> None:
        self.pieces = Pieces()
        self.walk: Walk | None = None
        """It holds the model of the latest form, so that its fixes need no second interpretation."""
