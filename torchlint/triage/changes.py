"""Whether a file may change in place what autograd has saved, or leaves: its functions, read one by one."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from torchlint.operators import MODULES
from torchlint.triage.effects import Effect, Surroundings
from torchlint.triage.functions import Functions
from torchlint.triage.makers import HOLDERS, Makers
from torchlint.triage.reading import Reading


@dataclass(frozen=True)
class Changes:
    """What may be changed in place in a file."""

    saved: bool
    leaf: bool

    @classmethod
    def of(cls, data: bytes) -> Changes:
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        makers = Makers(data)
        return _File(Functions(data), makers).read() if makers.have_graphs else cls(False, False)


class _Anything:
    """Surroundings in which functions do and are handed the worst, since that costs nothing: most pass even so."""

    def __init__(self, file: _File) -> None:
        self.file = file
        self.is_parameter = file.is_parameter
        self.goes_backward = file.goes_backward

    def effect(self, name: str) -> Effect:
        makers = self.file.makers
        is_local = name in self.file.functions.names or not makers.made(name)[0].isdisjoint(makers.classes)
        if is_local and name not in self.file.changers:
            return Effect(saves=True, keeps_result=True, tracks=True)
        return self.file.effect(name)

    def is_called(self, name: str) -> bool:
        return True


class _File:
    """A file as its functions see it."""

    def __init__(self, functions: Functions, makers: Makers) -> None:
        self.functions = functions
        self.makers = makers
        self.saved = self.leaf = False
        self.anything = _Anything(self)
        self.changers: set[str] = set()
        """The functions known to change in place what they are handed, or what objects hold."""
        self._effects: dict[str, Effect] = {}
        self._called: dict[str, bool] = {}
        self._readings: dict[int, Reading] = {}

    def read(self) -> Changes:
        """Read the functions that change something, those that call them, and so on."""
        todo = list(self.functions.changing())
        while todo and not (self.saved and self.leaf):
            changers = {name for item in todo for name in self._read(*item)} - self.changers
            self.changers |= changers
            self._readings.clear()
            todo = [item for name in changers for item in self.functions.calling(name.encode())]
        return Changes(self.saved, self.leaf)

    def _read(self, start: int, text: bytes) -> set[str]:
        """Read a function; which functions in it change what they are handed, or what objects hold."""
        reading = self._roughly(start, text)
        if reading.saved_changed or reading.leaf_changed:
            reading = _reading(text, self)
        self.saved |= reading.saved_changed
        self.leaf |= reading.leaf_changed
        return reading.changers

    def _roughly(self, start: int, text: bytes) -> Reading:
        """A function, read as if the worst could be said of others."""
        known = self._readings.get(start)
        if known is None:
            known = self._readings[start] = _reading(text, self.anything)
        return known

    # -- what functions have around them ----------------------------------------------------------------

    @property
    def goes_backward(self) -> bool:
        return self.makers.go_backward

    def is_parameter(self, name: str) -> bool:
        return name in self.makers.parameters

    def is_called(self, name: str) -> bool:
        if self.makers.go_backward or name == "forward":
            return self.makers.go_backward
        known = self._called.get(name)
        if known is None:
            self._called[name] = False
            callers = self.functions.calling(name.encode())
            known = self._called[name] = any(name in self._roughly(*caller).handing for caller in callers)
        return known

    def effect(self, name: str) -> Effect:
        known = self._effects.get(name)
        if known is None:
            self._effects[name] = Effect(saves=True, tracks=True)  # what calls itself, while that is found out
            known = self._effects[name] = self._effect(name)
        return known

    def _effect(self, name: str) -> Effect:
        if name in self.functions.names:
            return self._of_functions(self.functions.named(name))
        made, in_place = self.makers.made(name)
        found = Effect(changes=in_place)
        for item in made:
            if item in MODULES:
                found |= Effect("input" in MODULES[item], "result" in MODULES[item], tracks=True)
            elif item in HOLDERS:
                found |= Effect(tracks=True)
            elif item in self.makers.classes:
                found |= self._of_functions(self.functions.named("forward", self.makers.classes[item]))
        return found

    def _of_functions(self, texts: Iterable[bytes]) -> Effect:
        found = Effect()
        for text in texts:
            found |= _reading(text, self.anything, called=True).effect()
        return found


def _reading(text: bytes, surroundings: Surroundings, *, called: bool = False) -> Reading:
    """A function that was read; of one that cannot be read, the worst is assumed."""
    reading = Reading(surroundings, called=called)
    try:
        reading.block(ast.parse(b"if 1:\n" + text if text[:1] in b" \t" else text).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        reading.saved_changed = reading.leaf_changed = True
    return reading
