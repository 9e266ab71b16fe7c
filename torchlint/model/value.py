"""The base of abstract values: nodes of a static-single-assignment graph."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from torchlint.syntax.python_ast import Site, site_of

Origin = ast.AST | Site | None
"""The node, or the site of the node, that creates a value."""


class Value:
    """Base of all values. `site` is where the value was created; values compare by identity."""

    __slots__ = ("_attributes", "label", "loops", "order", "parents", "site", "uses")

    def __init__(self, node: Origin, parents: tuple[Value, ...] = (), label: str = "") -> None:
        self.site = site_of(node) if isinstance(node, ast.AST) else node
        self.parents = parents
        self.label = label
        """The program's name for it: a hint, never proof."""
        self.loops: tuple[object, ...] = ()
        """The loops, outermost first, in one iteration of which the value was created."""
        self.order = 0
        """Its creation time, in the order of interpretation."""
        self.uses: set[str] | None = None
        """Names of the methods called on it, `sum()` for Python's own: evidence of its type."""
        self._attributes: dict[object, Value] | None = None

    def used_as(self, name: str) -> None:
        if self.uses is None:
            self.uses = set()
        self.uses.add(name)

    def has_use(self, *names: str) -> bool:
        return self.uses is not None and not self.uses.isdisjoint(names)

    def part(self, key: object) -> Value | None:
        return self._attributes.get(key) if self._attributes else None

    def key_of(self, part: Value) -> object:
        """The name or index under which a value is a part of this one; None if it is no part."""
        return next((key for key, value in self.known_parts.items() if value is part), None)

    def set_part(self, key: object, value: Value) -> None:
        if self._attributes is None:
            self._attributes = {}
        self._attributes[key] = value

    def set_parts(self, parts: Mapping[Any, Value]) -> None:
        for key, value in parts.items():
            self.set_part(key, value)

    @property
    def known_parts(self) -> dict[object, Value]:
        return self._attributes or {}
