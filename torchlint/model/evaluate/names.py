"""Names of the program: local, enclosing, global, imported, or Python's own."""

from __future__ import annotations

import ast

from torchlint.model.evaluate.part import Part
from torchlint.model.values import External, Frame, Function, Unknown, Value


class Names(Part):
    """Looks up names."""

    def __init__(self) -> None:
        self._globals: dict[str, Value] = {}
        """Imported names, functions that are not defined yet, builtins, and unknown names."""

    def lookup(self, name: str, node: ast.AST | None = None) -> Value:
        """What a name stands for here: local, enclosing, global, imported, or unknown."""
        frame: Frame | None = self.state.frame
        while frame is not None:
            found = frame.locals.get(name)
            if found is not None:
                return found
            frame = frame.parent
        return self._global(name, node)

    def _global(self, name: str, node: ast.AST | None) -> Value:
        found = self._globals.get(name)
        if found is None:
            target = self.definitions.imported(name)
            defined = self.definitions.function_named(name)
            if target is None and defined is not None:
                return Function(defined, self.state.module_frame)
            found = External(node, target) if target else Unknown(None, "global", (), name)
            self._globals[name] = found
        return found
