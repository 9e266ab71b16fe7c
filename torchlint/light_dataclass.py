"""Dataclasses that take a third of the time to make: those of the standard library were a fifth of a start.

The library compiles up to six functions for each class. Here that is `__init__` alone; the others are shared.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True, repr=True, **options):
        """As in the standard library, but that it is left to type checkers that nothing frozen is changed."""

        def made(cls):
            own = {name for name, value in vars(cls).items() if value is not None}
            cls = dataclasses.dataclass(cls, eq=False, repr=False, **options)
            methods = {**(_comparison(cls, hashes=frozen) if eq else {}), **(_form(cls) if repr else {})}
            for name in methods.keys() - own:
                setattr(cls, name, methods[name])
            return cls

        return made if cls is None else made(cls)


def _comparison(cls: Any, *, hashes: bool) -> dict[str, Any]:
    """Methods that compare the fields of a class; what may be changed has no hash."""
    names = [field.name for field in dataclasses.fields(cls) if field.compare]
    key = attrgetter(*names) if names else lambda item: ()

    def equals(self: Any, other: object) -> bool:
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    def hash_of(self: Any) -> int:
        return hash(key(self))

    return {"__eq__": equals, "__hash__": hash_of if hashes else None}


def _form(cls: Any) -> dict[str, Any]:
    """The method that shows the fields of a class."""
    names = [field.name for field in dataclasses.fields(cls) if field.repr]

    def form(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return {"__repr__": form}
