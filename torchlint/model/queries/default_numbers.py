"""Default numbers: the value of a number unless the user sets another one."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchlint.index import FileIndex
from torchlint.model import values
from torchlint.model.definitions import Definitions, defaults_of
from torchlint.model.queries import names, written
from torchlint.syntax.python_ast import dotted

if TYPE_CHECKING:
    from torchlint.model.program import Program
    from torchlint.model.utilities import DataLoader

_DEPTH = 4
_BEFORE_WORKERS = 5
"""The positional arguments of a `DataLoader` before the number of workers."""


def workers_of(loader: DataLoader, program: Program) -> int:
    """The number of workers of a loader, perhaps by default; 0 if it is not known."""
    passed = loader.part("num_workers")
    passed = values.resolved(passed) if passed is not None else None
    if isinstance(passed, values.Plain) and isinstance(passed.constant, int):
        return int(passed.constant)
    call = program.tree.node(loader.site) if loader.site is not None else None
    given = written.argument(call, _BEFORE_WORKERS, "num_workers") if isinstance(call, ast.Call) else None
    origin = program.tree.node(passed.site) if passed is not None and passed.site is not None else None
    for node in (origin, given):
        number = default_number(node, program.definitions_of(node)) if isinstance(node, ast.expr) else None
        if number is not None:
            return int(number)
    return 0


def default_number(node: ast.expr, definitions: Definitions, depth: int = _DEPTH) -> float | None:
    """The literal number of an expression, by its default.

    For a parameter that is its default, for an attribute the value that `__init__` sets, and for a command-line
    option its default.
    """
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, (int, float)) and not isinstance(node.value, bool) else None
    if depth == 0:
        return None
    if isinstance(node, ast.Name):
        return _of_variable(node, definitions, depth)
    if not isinstance(node, ast.Attribute):
        return None
    method = definitions.method_around(node)
    if method is not None and method.owner is not None and dotted(node.value) in method.parameters[:1]:
        stores = FileIndex.of(definitions.tree).stores_of(node.attr)
        makers = [(item, definitions.method_around(item)) for item in stores]
        own = [item for item, maker in makers if maker is not None and maker.owner is method.owner]
        return _assigned(own[0], definitions, depth) if len(own) == 1 else None
    return _of_option(node.attr, definitions) if dotted(node.value) else None


def _of_variable(node: ast.Name, definitions: Definitions, depth: int) -> float | None:
    value = names.only_value(node, definitions)
    if value is not None:
        return default_number(value, definitions, depth - 1)
    bound = FileIndex.of(definitions.tree).bindings_of(node.id)
    around = definitions.function_around(node)
    if around is not None and node.id in around.parameters:
        default = defaults_of(around.node).get(node.id)
        is_rebound = any(definitions.function_around(item) is around for item in bound)
        return default_number(default, definitions, depth - 1) if default is not None and not is_rebound else None
    is_global = len(bound) == 1 and definitions.function_around(bound[0]) is None
    return _assigned(bound[0], definitions, depth) if is_global else None


def _assigned(target: ast.expr, definitions: Definitions, depth: int) -> float | None:
    statement = definitions.tree.parent(target)
    if not isinstance(statement, ast.Assign) or len(statement.targets) > 1:
        return None
    return default_number(statement.value, definitions, depth - 1)


def _of_option(name: str, definitions: Definitions) -> float | None:
    """The default of the only command-line option with a name."""
    found = []
    for call in FileIndex.of(definitions.tree).calls_named("add_argument"):
        flags = [item.value for item in call.args if isinstance(item, ast.Constant) and isinstance(item.value, str)]
        written = {item.arg: item.value for item in call.keywords}
        target = written.get("dest")
        plain = [flag.lstrip("-").replace("-", "_") for flag in flags]
        if name in ([target.value] if isinstance(target, ast.Constant) else plain):
            found.append(written.get("default"))
    return default_number(found[0], definitions, 0) if len(found) == 1 and found[0] is not None else None
