"""Resumes: loaded checkpoints, the entries that code reads from them, and loops that continue at a saved epoch."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchlint.index import FileIndex
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import names, variables
from torchlint.syntax.python_ast import LOOPS, Site, called_name, dotted, names_read, site_of, walk

if TYPE_CHECKING:
    from torchlint.model.definitions import Definitions, FunctionInfo
    from torchlint.model.model import Model
    from torchlint.syntax.python_tree import PythonTree

COUNTERS = LazyPattern(r"(?i)epoch|step|iter")
"""Names of entries and variables that count epochs or steps."""


def entries(load: ast.Call, definitions: Definitions) -> list[tuple[ast.Name, str]] | None:
    """The reads of a loaded checkpoint with their keys, for `x.load_state_dict(checkpoint["x"])`.

    None if the state does not come from a loaded checkpoint, or code reads it other than by literal keys.
    """
    state = load.args[0]
    checkpoint = state.value if isinstance(state, ast.Subscript) else None
    if not isinstance(checkpoint, ast.Name):
        return None
    bound = [names.bound_value(item, definitions.tree) for item in variables.bindings(checkpoint.id, load, definitions)]
    if not bound or not all(isinstance(item, ast.Call) and called_name(item) == "load" for item in bound):
        return None
    reads = [(item, _entry_read(item, definitions)) for item in variables.reads(checkpoint.id, load, definitions)]
    known = [(item, key) for item, key in reads if key is not None]
    return known if len(known) == len(reads) else None


def continued(load: ast.Call, model: Model) -> Site | None:
    """The place where the epoch or step of a loaded checkpoint starts a loop."""
    counts = (item for item, key in entries(load, model.definitions) or () if COUNTERS.search(key))
    return next((site_of(item) for item in counts if _is_start(item, model)), None)


def is_replayed(step: ast.AST, tree: PythonTree) -> bool:
    """Whether a loop only steps a scheduler, to restore its position."""
    loop = tree.parent(tree.statement(step))
    return isinstance(loop, LOOPS) and len(loop.body) == 1


def _entry_read(name: ast.Name, definitions: Definitions) -> str | None:
    """The literal key with which an expression reads or looks for an entry of a dictionary."""
    parent = definitions.tree.parent(name)
    key: ast.expr | None = parent.slice if isinstance(parent, ast.Subscript) else None
    if isinstance(parent, ast.Attribute) and parent.attr == "get":
        call = definitions.tree.parent(parent)
        key = call.args[0] if isinstance(call, ast.Call) and call.args else None
    elif isinstance(parent, ast.Compare) and isinstance(parent.left, ast.Constant):
        key = parent.left
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None


def _is_start(read: ast.Name, model: Model) -> bool:
    """Whether a loop starts at a number that a checkpoint contains, here or in a caller of the function."""
    statement = model.tree.statement(read)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if any(_starts_loop(target, model.definitions) for target in targets):
        return True
    function = model.definitions.function_around(read)
    kept = {target.id for target in targets if isinstance(target, ast.Name)}
    if function is None or not _is_returned(function, read, kept):
        return False
    files = (model.definitions, *model.importers(function.name, (b"range",)))
    return _is_passed_on(kept, model.definitions) or any(_continues(file, function.name) for file in files)


def _is_passed_on(kept: set[str], file: Definitions) -> bool:
    """Whether a loop of the file starts at a parameter of the same name: `trainer.fit(start_epoch=start_epoch)`."""
    calls = (item for item in file.tree.of_type(ast.keyword) if item.arg in kept)
    passed = {item.arg for item in calls if isinstance(item.value, ast.Name) and item.value.id == item.arg}
    for loop in file.tree.of_type(ast.For) if passed else ():
        around = file.function_around(loop)
        start = _counts_from(loop)
        if isinstance(start, ast.Name) and start.id in passed and around is not None and start.id in around.parameters:
            return True
    return False


def _counts_from(loop: ast.For) -> ast.expr | None:
    """The number from which a loop counts: `start` of `for epoch in range(start, epochs)`."""
    counts = isinstance(loop.iter, ast.Call) and called_name(loop.iter) in ("range", "trange")
    return loop.iter.args[0] if counts and isinstance(loop.iter, ast.Call) and len(loop.iter.args) > 1 else None


def _is_returned(function: FunctionInfo, read: ast.Name, kept: set[str]) -> bool:
    ends = (node.value for node in walk(function.node) if isinstance(node, ast.Return) and node.value is not None)
    values = (item for end in ends for item in walk(end))
    return any(item is read or (isinstance(item, ast.Name) and item.id in kept) for item in values)


def _continues(file: Definitions, name: str) -> bool:
    """Whether a file starts a loop with a result of a function."""
    statements = (file.tree.statement(call) for call in FileIndex.of(file.tree).calls_named(name))
    targets = [item for node in statements if isinstance(node, ast.Assign) for item in node.targets]
    parts = [part for item in targets for part in (item.elts if isinstance(item, ast.Tuple) else [item])]
    return any(_starts_loop(part, file) for part in parts)


def _starts_loop(target: ast.expr, file: Definitions) -> bool:
    """Whether a loop counts from a variable or attribute: `for epoch in range(start, epochs)`."""
    place, around = dotted(target), file.function_around(target)
    for loop in file.tree.of_type(ast.For) if place else ():
        start = _counts_from(loop)
        if start is not None and place in names_read(start):
            if "." in place or file.function_around(loop) is around:
                return True
    return False
