"""Whether a file may change in place what autograd has saved, or leaves: its functions, read one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from torchlint.files.python import UNREADABLE
from torchlint.prefilter.effects import ALL, NONE, Effect, Positions, Surroundings
from torchlint.prefilter.facts import Facts
from torchlint.prefilter.makers import Makers, have_graphs
from torchlint.prefilter.outline import Function, Outline
from torchlint.prefilter.places import Places
from torchlint.prefilter.reading import Reading


@dataclass(frozen=True)
class Changes:
    """What may be changed in place in a file."""

    saved: bool
    leaf: bool

    @classmethod
    def of(cls, data: bytes) -> Changes:
        return _File(Outline.of(data)).read() if have_graphs(data) else cls(False, False)


class _File(Facts):
    """A file as its functions see it."""

    def __init__(self, outline: Outline) -> None:
        super().__init__(Makers(outline), outline)
        self.saved = self.leaf = False
        self.changes: dict[str, Effect] = {}
        """What functions change in place of what they are handed, and of what objects hold."""
        self.anything = _Anything(self)
        self._effects: dict[tuple[str, frozenset[str] | None], Effect] = {}
        self._handed: dict[str, Positions] = {}

    def read(self) -> Changes:
        """Read the functions that change something, those that call them, and so on."""
        if not self.makers.are_plain:
            return Changes(True, True)
        todo = list(Places(self.outline).functions())
        while todo and not (self.saved and self.leaf):
            found = [change for function in todo for change in self._read(function)]
            news = [(name, change) for name, change in found if self._learn(name, change)]
            todo = list(dict.fromkeys(function for name, change in news for function in self._users(name, change)))
        return Changes(self.saved, self.leaf)

    def _learn(self, name: str, change: Effect) -> bool:
        """Whether it is news what a function changes."""
        known = self.changes.get(name, Effect())
        self.changes[name] = known | change
        return self.changes[name] != known

    def _users(self, name: str, change: Effect) -> Iterator[Function | None]:
        """The functions that call one of a name, and in which what it changes may have been kept."""
        held = [label.encode() for label in change.attributes]
        kept = any(map(self.makers.may_keep_tensor, change.attributes))
        if name in ("__call__", "forward"):
            users = self.outline.parts
        else:
            users = [] if name.startswith("__") else self.outline.users(name)
        for user in users:
            text = self.outline.text(user)
            if change.changes or change.parts or kept or any(label in text for label in held):
                yield user

    def _read(self, function: Function | None) -> Iterable[tuple[str, Effect]]:
        """Read a function; what it changes of what it is handed, or of what objects hold."""
        reading = self._reading(function, self.anything)
        if reading.saved_changed or reading.leaf_changed:
            reading = self._reading(function, self)
        self.saved |= reading.saved_changed
        self.leaf |= reading.leaf_changed
        if function is not None:
            effect = reading.effect()
            if effect.changes or effect.attributes or effect.parts:
                yield function.name, Effect(changes=effect.changes, attributes=effect.attributes, parts=effect.parts)

    def _reading(self, function: Function | None, around: Surroundings, *, called: bool = False) -> Reading:
        """A function that was read, or what is outside of all; of what cannot be read, the worst is assumed."""
        reading = Reading(around, function, called=called)
        try:
            reading.block(self.outline.tree(function).body)
        except UNREADABLE:
            reading.saved_changed = reading.leaf_changed = True
        return reading

    # -- what functions have around them ----------------------------------------------------------------

    @property
    def changes_attributes(self) -> bool:
        return any(change.attributes for change in self.changes.values())

    def handed(self, name: str) -> Positions:
        if self.goes_backward:
            return ALL
        known = self._handed.get(name)
        if known is None:
            self._handed[name] = ALL  # meanwhile, for functions that call each other
            callers = [caller for caller in self.outline.callers(name) if caller is None or caller.name != name]
            known = NONE.union(*(self._reading(caller, self).handing.get(name, NONE) for caller in callers))
            self._handed[name] = known
        return known

    def effect(self, name: str, classes: frozenset[str] | None = None) -> Effect:
        known = self._effects.get((name, classes))
        if known is None:
            self._effects[name, classes] = Effect(saves=ALL, tracks=True)  # what calls itself, meanwhile
            known = Effect()
            for function in self.outline.by_name.get(name, ()):
                if classes is None or function.owner in classes:
                    known |= self._reading(function, self, called=True).effect()
            self._effects[name, classes] = known
        return known


_WORST = Effect(saves=ALL, keeps_result=True, tracks=True, leaf=True, keeps=ALL, keeps_saved=True)


class _Anything(Facts):
    """Surroundings in which functions do and are handed the worst, since that costs nothing: most pass even so."""

    def __init__(self, file: _File) -> None:
        super().__init__(file.makers, file.outline)
        self.file = file

    @property
    def changes_attributes(self) -> bool:
        return self.file.changes_attributes

    def effect(self, name: str, classes: frozenset[str] | None = None) -> Effect:
        return self.file.changes.get(name, Effect()) | _WORST

    def handed(self, name: str) -> Positions:
        return ALL if self.goes_backward or any(True for _ in self.outline.calls(name)) else NONE
