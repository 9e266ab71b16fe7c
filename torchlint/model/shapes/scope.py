"""Scopes: the values of the parameters of `__init__` and `forward` at one call of an object."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torchlint.model.definitions import FunctionInfo, all_parameters, defaults_of
from torchlint.model.values import Value
from torchlint.syntax.python_ast import Site, site_of

if TYPE_CHECKING:
    from torchlint.model.arguments import Arguments
    from torchlint.syntax.python_tree import PythonTree

MAX_DEPTH = 6
"""Maximum depth of nested modules."""

Key = tuple["PythonTree | None", Site, str]
"""The file of a parameter (None: the linted one), its function or annotation, and its name."""


@dataclass(eq=False)
class Scope:
    """The known parameters; each stands for a value of another scope, or for its default expression."""

    depth: int = 0
    parameters: dict[Key, tuple[Value | ast.expr, Scope]] = field(default_factory=dict)

    def bind(self, function: FunctionInfo, arguments: Arguments, outer: Scope, file: PythonTree | None) -> None:
        """Bind the parameters of a method except the first; for a call with `*` or `**` they stay unknown."""
        if arguments.starred:
            return
        defaults = defaults_of(function.node)
        annotated = {item.arg: item.annotation for item in all_parameters(function.node)}
        for index, name in enumerate(function.parameters[1:]):
            given: Value | ast.expr | None = arguments.get(index, name) or defaults.get(name)
            if given is None:
                continue
            self.parameters[file, site_of(function.node).written, name] = given, outer
            annotation = annotated.get(name)
            if annotation is not None:
                self.parameters[file, site_of(annotation).written, name] = given, outer

    def get(self, value: Value) -> tuple[Value | ast.expr, Scope] | None:
        """The value or expression bound to a parameter; None if the value is not a bound parameter."""
        if value.site is None:
            return None
        file = value.site.inner.tree if value.site.inner is not None else None
        return self.parameters.get((file, value.site.written, value.label))


ROOT = Scope()
"""The scope without known parameters."""
