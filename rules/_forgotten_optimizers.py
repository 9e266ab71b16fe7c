"""Resumes that restore a model and its epoch, but not the optimizer whose state the program saves."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint.index import FileIndex
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import definitions
from torchlint.model.relations.provenance import states
from torchlint.pytorch import naming
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint import Model
    from torchlint.syntax.python_ast import Site

_COUNTERS = LazyPattern(r"(?i)epoch|step|iter")
_COMMENTED = LazyPattern(r"(?i)#.*optim\w*\.load_state_dict")
"""A restored optimizer that the author has commented out."""
_STATELESS = frozenset({"SGD"})


class Forgotten(NamedTuple):
    """The model is loaded at `site` and `counter` continues, but the saved optimizer `name` is not restored."""

    site: Site
    name: str
    saved: Site
    counter: Site


class ForgottenOptimizers:
    """Finds the checkpoints of a file that continue the epochs without the optimizer."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.tree = model.tree
        self.states: states.States = model.provenance.states

    def all(self) -> Iterator[Forgotten]:
        saved = [item for item in self.states.saved if naming.looks_like_optimizer(python_ast.last_name(item))]
        if not saved or not any(map(self._matters, saved)) or self._may_be_restored(saved):
            return
        for call, _ in self.states.loads:
            name = checkpoint_of(call.args[0])
            counter = self.continued(name) if name is not None and self.is_loaded(name) else None
            if counter is not None:
                code = self.tree.code(saved[0])
                yield Forgotten(python_ast.site_of(call), code, python_ast.site_of(saved[0]), counter)
                return

    def _matters(self, optimizer: ast.expr) -> bool:
        """Whether an optimizer may have moments: all but SGD without momentum."""
        made = self.model.provenance.created(optimizer)
        if not isinstance(made, ast.Call) or python_ast.called_name(made) not in _STATELESS:
            return True
        return any(item.arg in ("momentum", None) for item in made.keywords)

    def _may_be_restored(self, saved: list[ast.expr]) -> bool:
        """Whether some code may load the state of an optimizer, or the author has removed that code."""
        owners = [owner for _, owner in self.states.loads]
        if any(not isinstance(item, (ast.Name, ast.Attribute)) for item in owners):
            return True
        if any(naming.looks_like_optimizer(python_ast.last_name(item)) for item in owners):
            return True
        if _COMMENTED.search(self.tree.source.text):
            return True
        keys = [self._key(item) for item in saved]
        return any(key is None or self.model.reads_entry(key) for key in keys)

    def _key(self, owner: ast.expr) -> str | None:
        """The key under which a dictionary keeps the state of an object."""
        _, state, parent, *_ = self.tree.ancestors(owner)
        if isinstance(parent, ast.keyword):
            return parent.arg
        key: ast.expr | None = None
        if isinstance(parent, ast.Dict):
            key = next(key for key, value in zip(parent.keys, parent.values, strict=True) if value is state)
        elif isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Subscript):
            key = parent.targets[0].slice
        return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None

    def is_loaded(self, name: ast.Name) -> bool:
        """Whether a name is a loaded checkpoint of which only entries with literal keys are read."""
        same = self._same(name)
        bound = [self.tree.parent(item) for item in same if not isinstance(item.ctx, ast.Load)]
        values = [item.value if isinstance(item, ast.Assign) else None for item in bound]
        loads = [isinstance(value, ast.Call) and python_ast.called_name(value) == "load" for value in values]
        read = [item for item in same if isinstance(item.ctx, ast.Load)]
        return bool(loads) and all(loads) and all(self._entry(item) is not None for item in read)

    def _same(self, name: ast.Name) -> list[ast.Name]:
        """The uses of a variable in its function."""
        around = self.model.definitions.function_around(name)
        names = (item for item in self.tree.of_type(ast.Name) if item.id == name.id)
        return [item for item in names if self.model.definitions.function_around(item) is around]

    def _entry(self, name: ast.Name) -> str | None:
        """The literal key with which an expression reads an entry of a dictionary."""
        parent = self.tree.parent(name)
        key: ast.expr | None = parent.slice if isinstance(parent, ast.Subscript) else None
        if isinstance(parent, ast.Attribute) and parent.attr == "get":
            call = self.tree.parent(parent)
            key = call.args[0] if isinstance(call, ast.Call) and call.args else None
        elif isinstance(parent, ast.Compare) and isinstance(parent.left, ast.Constant):
            key = parent.left
        return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None

    def continued(self, checkpoint: ast.Name) -> Site | None:
        """The place where a checkpoint's epoch or step becomes the start of a loop over epochs or steps."""
        for item in self._same(checkpoint):
            key = self._entry(item)
            if key is None or not _COUNTERS.search(key):
                continue
            statement = self.tree.statement(item)
            function = self.model.definitions.function_around(item)
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            if any(map(self._starts_loop, targets)):
                return python_ast.site_of(item)
            returned = {python_ast.dotted(target) for target in targets if isinstance(target, ast.Name)}
            if function is not None and self._is_returned(function, item, returned):
                return python_ast.site_of(item)
        return None

    def _is_returned(self, function: definitions.FunctionInfo, read: ast.Name, names: set[str]) -> bool:
        """Whether callers start a loop with a number that a function returns."""
        ends = [node for node in python_ast.walk(function.node) if isinstance(node, ast.Return)]
        values = [item for node in ends if node.value is not None for item in python_ast.walk(node.value)]
        if not any(item is read or (isinstance(item, ast.Name) and item.id in names) for item in values):
            return False
        others = self.model.importers(function.name, (b"range",))
        return any(_continues(file, function.name) for file in (self.model.definitions, *others))

    def _starts_loop(self, target: ast.expr) -> bool:
        return _starts_loop(target, self.model.definitions)


def _continues(file: definitions.Definitions, name: str) -> bool:
    """Whether a file starts a loop with a result of a function."""
    calls = FileIndex.of(file.tree).calls_named(name)
    statements = (file.tree.statement(call) for call in calls)
    targets = [item for node in statements if isinstance(node, ast.Assign) for item in node.targets]
    parts = [part for item in targets for part in (item.elts if isinstance(item, ast.Tuple) else [item])]
    return any(_starts_loop(part, file) for part in parts)


def _starts_loop(target: ast.expr, file: definitions.Definitions) -> bool:
    """Whether a loop counts from a variable or attribute: `for epoch in range(start, epochs)`."""
    place = python_ast.dotted(target)
    around = file.function_around(target)
    for loop in file.tree.of_type(ast.For) if place else ():
        counts = isinstance(loop.iter, ast.Call) and python_ast.called_name(loop.iter) in ("range", "trange")
        if not counts or not isinstance(loop.iter, ast.Call) or len(loop.iter.args) < 2:
            continue
        is_visible = "." in place or file.function_around(loop) is around
        if is_visible and place in python_ast.names_read(loop.iter.args[0]):
            return True
    return False


def checkpoint_of(argument: ast.expr) -> ast.Name | None:
    """`checkpoint` of `checkpoint["model"]`."""
    if not isinstance(argument, ast.Subscript) or not isinstance(argument.value, ast.Name):
        return None
    return argument.value
