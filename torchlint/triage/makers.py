"""What a file defines, and what its names are bound to: read from bytes, and only as far as it is asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property

from torchlint.operators import MODULES, MODULES_WITHOUT_PARAMETERS
from torchlint.triage.functions import finds

HOLDERS = frozenset({"Sequential", "ModuleList", "ModuleDict"})


def _shortest(names: Iterable[str]) -> list[str]:
    """The names that none of the others is the end of: what ends in `Linear` ends in a name that is left."""
    known = set(names)
    return sorted(name for name in known if not any(name != other and name.endswith(other) for other in known))


_GRAPHS = (
    b"Parameter",
    b"requires_grad",
    b"backward(",
    *(name.encode() + b"(" for name in _shortest(MODULES.keys() - MODULES_WITHOUT_PARAMETERS | HOLDERS)),
)
_PARAMETER = re.compile(rb".*?(\w+)[ \t]*(?::[^=\n]+)?=[^=\n]|.*?register_parameter\([ \t]*[\"'](\w+)")
_BINDING = re.compile(rb"^[ \t]*(?:self\.)?(\w+)[ \t]*(?::[^=\n(]+)?=(?!=)", re.M)
_CLASS = re.compile(rb"^[ \t]*class[ \t]+(\w+)", re.M)
_MADE = re.compile(rb"(\w+)\(")


class Makers:
    """Facts about a whole file that the reading of one of its functions needs."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._made: dict[str, tuple[frozenset[str], bool]] = {}

    @cached_property
    def have_graphs(self) -> bool:
        """Whether there is anything in the file that autograd could follow."""
        return b"torch" in self.data and any(text in self.data for text in _GRAPHS)

    @cached_property
    def go_backward(self) -> bool:
        """Whether a backward pass may show that what the file calls is tracked."""
        return b"backward(" in self.data

    @cached_property
    def classes(self) -> dict[str, tuple[int, int]]:
        """Where each class of the file is: from its start to the next class."""
        found = list(_CLASS.finditer(self.data))
        ends = [*(item.start() for item in found[1:]), len(self.data)]
        return {item[1].decode(): (item.start(), end) for item, end in zip(found, ends, strict=False)}

    @cached_property
    def parameters(self) -> frozenset[str]:
        """Names and attributes that are bound to parameters, and those by which modules hold theirs."""
        lines = (self._line(place) for text in (b"arameter(", b"requires_grad") for place in finds(self.data, text))
        found = (_PARAMETER.match(line) for line in lines)
        return frozenset((item[1] or item[2]).decode() for item in found if item) | {"weight", "bias"}

    def made(self, name: str) -> tuple[frozenset[str], bool]:
        """What is called where a name or attribute is bound (`Conv2d` for `self.conv`), and if in place."""
        known = self._made.get(name)
        if known is None:
            text = b"".join(self._bound(name.encode()))
            made = frozenset(item.decode() for item in _MADE.findall(text))
            known = self._made[name] = made, b"inplace" in text
        return known

    @cached_property
    def _bindings(self) -> dict[bytes, list[tuple[int, int]]]:
        """Start and end of what binds each name or attribute, up to the value."""
        found: dict[bytes, list[tuple[int, int]]] = {}
        for item in _BINDING.finditer(self.data):
            found.setdefault(item[1], []).append(item.span())
        return found

    def _bound(self, name: bytes) -> Iterator[bytes]:
        """The values that a name or attribute is bound to, as text."""
        return (self._statement(*span) for span in self._bindings.get(name, ()))

    def _line(self, place: int) -> bytes:
        end = self.data.find(b"\n", place)
        return self.data[self.data.rfind(b"\n", 0, place) + 1 : end if end >= 0 else len(self.data)]

    def _statement(self, start: int, place: int) -> bytes:
        """The text from a place to the end of the statement whose line begins at `start`."""
        line_end = self.data.find(b"\n", place)
        line = self.data[place : line_end if line_end >= 0 else len(self.data)]
        if line.count(b"(") + line.count(b"[") <= line.count(b")") + line.count(b"]"):
            return line
        indent = len(self.data[start:place]) - len(self.data[start:place].lstrip(b" \t"))
        end = re.compile(rb"^[ \t]{0,%d}\S" % indent, re.M).search(self.data, line_end + 1)
        return self.data[place : end.start() if end else len(self.data)]
