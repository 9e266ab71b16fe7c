"""Modules that are imported when something of them is used for the first time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from importlib import import_module
from types import ModuleType


def late(name: str) -> ModuleType:
    """A module that stands in for another, and imports it when its first attribute is read.

    `import NAME` finds it too. (The standard library's `LazyLoader` does not survive that: a second import of the
    module reads an attribute of it.)
    """
    if name not in sys.modules:
        sys.modules[name] = _Late(name)
    return sys.modules[name]


def submodules(package: str, names: Collection[str]) -> Callable[[str], ModuleType]:
    """A `__getattr__` for a package, that imports its modules late: `from package import module`."""

    def module(name: str) -> ModuleType:
        if name in names:
            return late(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return module


class _Late(ModuleType):
    def __getattr__(self, attribute: str) -> object:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        module = import_module(self.__name__)
        self.__dict__.update(vars(module))
        return getattr(module, attribute)
