"""Activations of functions: their local names, and the scopes of free names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torchlint.model.value import Value
from torchlint.pytorch.effects import GradMode
from torchlint.syntax.python_ast import Site

if TYPE_CHECKING:
    from torchlint.model.definitions import Definitions, FunctionInfo


class Frame:
    """The local names of one activation of a function (or of the module), and the scopes of free names."""

    __slots__ = (
        "block",
        "blocks",
        "called",
        "definitions",
        "ends",
        "info",
        "locals",
        "outer_names",
        "parent",
        "returns",
        "yields",
    )

    def __init__(
        self,
        info: FunctionInfo | None,
        parent: Frame | None,
        blocks: int = 0,
        *,
        called: bool = False,
        definitions: Definitions | None = None,
    ) -> None:
        self.info = info
        found = parent.definitions if parent is not None else definitions
        assert found is not None, "the frame of a module says of which"
        self.definitions: Definitions = found
        """The definitions of the module it belongs to."""
        self.blocks = blocks
        """The number of open `with` blocks at the function's call."""
        self.called = called
        """Whether a call in this module made it, so that its parameters have that call's arguments."""
        self.parent = parent
        self.locals: dict[str, Value] = {}
        self.outer_names: set[str] = set()
        self.returns: list[Value] = []
        self.yields: list[tuple[GradMode, Site]] = []
        """The grad mode at each `yield`, and its site."""
        self.block: Callable[[Value], None] | None = None
        """The body of the `with` statement, which runs where the function, its context manager, yields."""
        self.ends: list[Any] = []
        """Snapshots of the state at each `return`."""
