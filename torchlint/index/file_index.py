"""One index of a file: its calls and mentions by name, its functions, and the functions that lead to them."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property

from torchlint.files.words import words_of
from torchlint.index import changes, comparisons, evaluation
from torchlint.pytorch.effects import GoesBackward
from torchlint.pytorch.table import last_names_with
from torchlint.syntax.optional_imports import imported_names, stand_ins
from torchlint.syntax.python_ast import FUNCTIONS, called_name, dotted
from torchlint.syntax.python_tree import PythonTree
from torchlint.syntax.spelling import with_plain_names

_BACKWARD = last_names_with(GoesBackward)
_LEAF_MAKERS = frozenset({"Parameter", "requires_grad", "requires_grad_", "ParameterList", "ParameterDict"})
_PARAMETERS = frozenset({"parameters", "named_parameters", "weight", "bias", "grad"})
"""Attributes by which a function has parameters of modules."""


class FileIndex:
    """Answers about the syntax of one file, each worked out when a rule first asks."""

    def __init__(self, tree: PythonTree) -> None:
        """Use `of`, so that a tree has one index."""
        self.tree = tree

    @classmethod
    def of(cls, tree: PythonTree) -> FileIndex:
        """The index of a tree."""
        if not isinstance(tree.index, cls):
            tree.index = cls(tree)
        return tree.index

    @cached_property
    def code(self) -> bytes:
        """The file with its names as Python reads them."""
        return with_plain_names(self.tree.source.code)

    @cached_property
    def goes_backward(self) -> bool:
        """Whether the file calls a `backward`, or passes one on."""
        return next(self.mentions(_BACKWARD), None) is not None

    @cached_property
    def optimizes(self) -> bool:
        """Whether an optimizer steps or is made, or what makes one by its name is called: `make_optimizer(model)`."""
        return bool(self._optimizing)

    @cached_property
    def _optimizing(self) -> list[ast.Call]:
        return [call for call in self.tree.of_type(ast.Call) if _is_of_optimizer(call)]

    @cached_property
    def changes_tensors(self) -> bool:
        """Whether something goes backward, or may change a tensor in place."""
        return self.goes_backward or bool(self.tensor_changes)

    @cached_property
    def tensor_changes(self) -> list[ast.AST]:
        """Calls and statements that may change a tensor in place that something was computed with before."""
        return list(changes.of_tensors(self.tree))

    @cached_property
    def compared_values(self) -> list[ast.Compare]:
        """Comparisons whose result is a value, as that of a mask is, and no condition of a statement."""
        return list(comparisons.of_values(self.tree))

    @cached_property
    def computes_while_evaluating(self) -> bool:
        """Whether a loop computes something with gradients on, where a model switches to evaluation."""
        return evaluation.computes_while_evaluating(self)

    @cached_property
    def methods_in_evaluation(self) -> set[ast.AST | None]:
        """Methods of classes whose `__init__` switches to evaluation, where nothing in the file trains."""
        return evaluation.methods_in_evaluation(self)

    @cached_property
    def keeps_while_evaluating(self) -> bool:
        """Whether a loop keeps something that it computes with gradients on, where a model switches to evaluation."""
        return evaluation.keeps_while_evaluating(self)

    @cached_property
    def training_names(self) -> frozenset[str]:
        """Functions and classes that go backward, themselves or through each other; if none does, those that optimize.

        A method counts for its class.
        """
        users = self.users(_BACKWARD) or set(map(self.outermost_function, self._optimizing))
        found: set[str] = set()
        while names := {self._owner_or_name(item) for item in users if item is not None} - found:
            found |= names
            users = self.users(names)
        return frozenset(found)

    def _owner_or_name(self, function: ast.AST) -> str:
        owner = self.tree.parent(function)
        named = owner if isinstance(owner, ast.ClassDef) else function
        assert isinstance(named, (ast.ClassDef, *FUNCTIONS))
        return named.name

    @cached_property
    def changes_leaves(self) -> bool:
        """Whether something may change a tensor in place that asks for gradients, as parameters do."""
        if self.goes_backward:
            return True
        changed = {self.outermost_function(node) for node in self.tensor_changes}
        asks = any(item.arg == "requires_grad" for item in self.tree.of_type(ast.keyword))
        return bool(changed) and (
            asks
            or next(self.mentions(_LEAF_MAKERS), None) is not None
            or not changed.isdisjoint(self.users(self._parameters))
        )

    @property
    def _parameters(self) -> set[str]:
        """Attributes by which modules have parameters: `weight`, `bias_ih_l0`."""
        return {*_PARAMETERS, *(name for name in self._by_name if name.startswith(("weight_", "bias_")))}

    @cached_property
    def replaces_layers(self) -> bool:
        """Whether the file may replace any layer of a module, `setattr(module, name, new)`, or has layers keep no
        statistics, `layer.track_running_stats = False`."""
        if next(self.stores_of("track_running_stats"), None) is not None:
            return True
        named = (call.args[1] for call in self._calls.get("setattr", ()) if len(call.args) > 1)
        return any(not isinstance(name, ast.Constant) for name in named)

    def has_word(self, words: Sequence[bytes]) -> bool:
        """Whether one of some words is in the file."""
        return words_of(self.code).hold(words)

    def mentions(self, names: Collection[str]) -> Iterator[ast.AST]:
        """Where the file calls, reads, imports or asks `getattr` for something of these names or of an alias of one."""
        own = self._with_aliases(names)
        for name in own:
            yield from self._by_name.get(name, ())
        if not own.isdisjoint(self._texts):
            for call in self._calls.get("getattr", ()):
                if any(not isinstance(item, ast.Constant) or item.value in own for item in call.args[1:2]):
                    yield call

    def names_one(self, names: Collection[str]) -> bool:
        """Whether the file mentions something of these names."""
        return next(self.mentions(names), None) is not None

    def has_operator(self, kind: type[ast.operator]) -> bool:
        """Whether the file computes something by an operator between two operands: `**`."""
        return any(isinstance(node.op, kind) for node in self.tree.of_type(ast.BinOp, ast.AugAssign))

    def stores_of(self, name: str) -> Iterator[ast.Attribute]:
        """Where the file sets an attribute of this name."""
        for node in self._by_name.get(name, ()):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                yield node

    def attribute_of(self, parameter: ast.Name) -> ast.expr | None:
        """The attribute that only stores a parameter of `__init__`: `self.width` for `width`, if nothing changes it."""
        function = self.tree.function_around(parameter)
        if function is None or getattr(function, "name", "") != "__init__" or self.bindings_of(parameter.id):
            return None
        return self._stored_parameters.get((function, parameter.id))

    @cached_property
    def _stored_parameters(self) -> dict[tuple[ast.AST, str], ast.expr]:
        found: dict[tuple[ast.AST, str], ast.expr] = {}
        for node in self.tree.of_type(ast.Assign):
            target, around = node.targets[0], self.tree.function_around(node)
            if isinstance(node.value, ast.Name) and isinstance(target, ast.Attribute) and around is not None:
                stores = [self.tree.function_around(item) for item in self.stores_of(target.attr)]
                if all(getattr(item, "name", "") == "__init__" for item in stores) and stores.count(around) == 1:
                    found[around, node.value.id] = target
        return found

    @property
    def called_names(self) -> Collection[str]:
        """The last names of everything that the file calls."""
        return self._calls.keys()

    def calls_named(self, *names: str) -> Iterator[ast.Call]:
        """Where the file calls something by one of these names, name by name; aliases are not followed."""
        for name in names:
            yield from self._calls.get(name, ())

    def bindings_of(self, name: str) -> Sequence[ast.Name]:
        """Where the file binds or deletes a variable of this name."""
        return self._bindings.get(name, ())

    def reads_of(self, name: str) -> Iterator[ast.Name]:
        """Where the file reads a variable of this name."""
        for node in self._by_name.get(name, ()):
            if isinstance(node, ast.Name):
                yield node

    def calls(self, names: Collection[str]) -> Iterator[ast.Call]:
        """Where the file calls something of these names, or of an alias of one."""
        for name in self._with_aliases(names):
            yield from self._calls.get(name, ())

    def users(self, names: Collection[str]) -> set[ast.AST | None]:
        """The outermost functions that mention one of these names; None for statements outside of all functions."""
        return {self.outermost_function(node) for node in self.mentions(names)}

    def reaching(self, functions: Iterable[ast.AST | None]) -> set[ast.AST | None]:
        """Functions, those that mention them by name, and so on."""
        found = set(functions)
        waiting = list(found)
        while waiting:
            function = waiting.pop()
            users = self.users({function.name}) - found if isinstance(function, FUNCTIONS) else set()
            found |= users
            waiting.extend(users)
        return found

    def outermost_function(self, node: ast.AST) -> ast.AST | None:
        """The outermost function that a node stands in, or is; None outside of all functions."""
        found = node if isinstance(node, FUNCTIONS) else None
        for item in self.tree.ancestors(node):
            if isinstance(item, FUNCTIONS):
                found = item
        return found

    @cached_property
    def function_names(self) -> frozenset[str]:
        """The names of all functions and methods."""
        return frozenset(item.name for item in self.tree.of_type(*FUNCTIONS))

    @cached_property
    def class_names(self) -> frozenset[str]:
        """The names of all classes."""
        return frozenset(item.name for item in self.tree.of_type(ast.ClassDef))

    @cached_property
    def imported_names(self) -> frozenset[str]:
        """The names that only imports bind, outside of functions."""
        statements = self.tree.of_type(ast.Import, ast.ImportFrom)
        outside = (item for item in statements if self.tree.function_around(item) is None)
        names = {name for item in outside for name in imported_names(item)}
        parameters = (item.arg for item in self.tree.of_type(ast.arg))
        stores = (item for item in self.tree.of_type(ast.Name) if type(item.ctx) is ast.Store)
        assigned = (item.id for item in stores if item not in self.stand_ins)
        return frozenset(names.difference(parameters, assigned))

    @cached_property
    def stand_ins(self) -> frozenset[ast.Name]:
        """The names that are bound to None in case their import fails; every answer takes them for the import."""
        return stand_ins(self.tree)

    @cached_property
    def aliases(self) -> dict[str, str]:
        """Names that the file gives to something, with the name that this has: `from a import b as c`, `c = a.b`."""
        found: dict[str, str] = {}
        for item in self.tree.of_type(ast.Import, ast.ImportFrom):
            found.update({alias.asname: alias.name.rpartition(".")[2] for alias in item.names if alias.asname})
        for item in self.tree.of_type(ast.Assign):
            if isinstance(item.value, ast.Attribute) and dotted(item.value):
                for target in item.targets:
                    if isinstance(target, ast.Name):
                        found.setdefault(target.id, item.value.attr)
        return found

    def _with_aliases(self, names: Collection[str]) -> set[str]:
        return {*names, *(alias for alias, name in self.aliases.items() if name in names)}

    @cached_property
    def _by_name(self) -> dict[str, list[ast.AST]]:
        """Attributes and names that are read, and imports, by their last name."""
        found: dict[str, list[ast.AST]] = {}
        for node in self.tree.of_type(ast.Attribute):
            found.setdefault(node.attr, []).append(node)
        for node in self.tree.of_type(ast.Name):
            if isinstance(node.ctx, ast.Load):
                found.setdefault(node.id, []).append(node)
        for item in self.tree.of_type(ast.Import, ast.ImportFrom):
            for alias in item.names:
                found.setdefault(alias.name, []).append(item)
        return found

    @cached_property
    def _bindings(self) -> dict[str, list[ast.Name]]:
        found: dict[str, list[ast.Name]] = {}
        for node in self.tree.of_type(ast.Name):
            if type(node.ctx) is not ast.Load and node not in self.stand_ins:
                found.setdefault(node.id, []).append(node)
        return found

    @cached_property
    def _texts(self) -> frozenset[object]:
        """The constants of the file, among them the names that `getattr` may get."""
        return frozenset(item.value for item in self.tree.of_type(ast.Constant))

    @cached_property
    def _calls(self) -> dict[str, list[ast.Call]]:
        found: dict[str, list[ast.Call]] = {}
        for call in self.tree.of_type(ast.Call):
            found.setdefault(called_name(call), []).append(call)
        return found


def _is_of_optimizer(call: ast.Call) -> bool:
    """`optimizer.step()`, `optim.Adam(...)`, `build_optimizers(...)`."""
    owner, _, name = dotted(call.func).rpartition(".")
    last = owner.rpartition(".")[2]
    return (
        (name == "step" and "opt" in last)
        or (last.endswith("optim") and name[:1].isupper())
        or name.rstrip("s").endswith(("optimizer", "optimiser"))
    )
