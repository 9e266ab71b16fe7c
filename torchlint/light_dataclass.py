"""Dataclasses that take a quarter of the time to make: those of the standard library were a fifth of a start.

The library compiles up to six functions for each class. Here that is `__init__` alone; the others are shared.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    from dataclasses import dataclass as _whole
    from dataclasses import fields

    def dataclass(cls=None, /, *, frozen=False, eq=True, repr=True, **options):
        """As in the standard library, but that only type checkers keep others from changing what is frozen."""

        def made(cls):
            own = vars(cls)
            explicit = {name for name in ("__eq__", "__hash__", "__repr__") if own.get(name) is not None}
            cls = _whole(cls, eq=False, repr=False, **options)
            found = {**_representation(cls), **(_comparison(cls, hashes=frozen) if eq else {})}
            for name in found.keys() - explicit:
                setattr(cls, name, found[name])
            return cls

        return made if cls is None else made(cls)

    def _comparison(cls, *, hashes):
        names = [field.name for field in fields(cls) if field.compare]
        key = attrgetter(*names) if names else lambda item: ()

        def __eq__(self, other):
            return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

        def __hash__(self):
            return hash(key(self))

        return {"__eq__": __eq__, "__hash__": __hash__ if hashes else None}

    def _representation(cls):
        names = [field.name for field in fields(cls) if field.repr]

        def __repr__(self):
            return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

        return {"__repr__": __repr__}
