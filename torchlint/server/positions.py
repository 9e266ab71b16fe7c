"""Columns as client and server count them: in code units of the encoding that they agreed on, and in code points."""

from __future__ import annotations

from dataclasses import dataclass

from lsprotocol import types

from torchlint.files.lines import Text
from torchlint.finding import Position

_CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}


@dataclass(frozen=True)
class Columns:
    """Converts columns of one encoding: `utf-8`, `utf-16` or `utf-32`."""

    encoding: str = "utf-16"

    def units(self, text: str) -> int:
        """How many code units a text has."""
        if text.isascii():
            return len(text)
        codec, width = _CODECS[self.encoding]
        return len(text.encode(codec, "surrogatepass")) // width

    def code_points(self, line: str, units: int) -> int:
        """How many code points of a line so many units are; all of them beyond its end."""
        if line.isascii():
            return min(units, len(line))
        counted = 0
        for number, char in enumerate(line):
            if counted >= units:
                return number
            counted += self.units(char)
        return len(line)

    def position(self, text: Text, position: types.Position) -> Position:
        """Where in a text a client's position is."""
        line = position.line + 1
        return Position(line, self.code_points(text.line(line), position.character))

    def sent(self, line: str, position: Position) -> types.Position:
        """A position on a line, whose text is given, as the client counts."""
        return types.Position(position.line - 1, self.units(line[: position.column]))
