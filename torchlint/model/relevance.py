"""The functions worth interpreting: those that train or change values in place, and their callers."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property

from torchlint.index import FileIndex, changes
from torchlint.model.definitions import ClassInfo, Definitions, FunctionInfo
from torchlint.model.imports import Imports
from torchlint.pytorch.api import CREATORS, MOVING, OUT_OF_PLACE, SET_GRAD_MODE, TENSOR_METHODS
from torchlint.pytorch.autograd_table import INPLACE
from torchlint.pytorch.effects import Clears, DetectsAnomaly, FreesCache, GoesBackward, Keeps, Steps
from torchlint.pytorch.table import ACTING_METHODS, last_names_with
from torchlint.syntax.python_ast import FUNCTIONS, LOOPS, called_name, dotted, walk, without_calls

MAX_MODULES = 3
"""Maximum number of modules between a call and the training code."""

_TRAINING = last_names_with(Clears, GoesBackward, Steps, FreesCache, DetectsAnomaly) | {
    name.rpartition(".")[2] for name in SET_GRAD_MODE
}
_PASSES = last_names_with(GoesBackward)
_WORDS = tuple(sorted(name.encode() for name in _TRAINING))
_KEEPING = last_names_with(Keeps)
_OF_TENSORS = CREATORS | TENSOR_METHODS | OUT_OF_PLACE
_SAY_NOTHING = frozenset({"__init__", "forward", "__call__", "__enter__", "__exit__"})
"""Names shared by many functions: a call by such a name does not identify the function."""


class Relevance:
    """Finds the relevant functions in a module, and in its imports from the repository."""

    def __init__(self, definitions: Definitions, imports: Imports | None = None, within: int = MAX_MODULES) -> None:
        self.definitions = definitions
        self.tree = definitions.tree
        self._imports = imports
        self._within = within

    def training(self) -> list[FunctionInfo]:
        """Functions that train or change something in place, here or in an imported module."""
        training = list(self._calling(_TRAINING | self._imported_training() | self._imported_changing()))
        changing = self._changing(trains=bool(training) or self._imports is not None)
        return self._with_callers([*training, *changing, *self._naming()])

    def training_names(self) -> set[str]:
        """The names of the functions that train."""
        found = self._with_callers(self._calling(_TRAINING | self._imported_training()))
        return ({info.name for info in found} - _SAY_NOTHING) | _called_classes(found)

    def callers(self, calls: Collection[str]) -> list[FunctionInfo]:
        """Functions that call one of these, or a result of one."""
        return self._with_callers(self._asked_for(calls), of_classes=True) if calls else []

    def inherited(self) -> Iterator[tuple[FunctionInfo, ClassInfo]]:
        """The training methods that a class of this module inherits from another one, if they call its own."""
        for info in self.definitions.classes.values():
            for base in list(info.ancestors())[1:] if self._imports is not None and info.methods else ():
                if isinstance(base, ClassInfo) and base.definitions is not self.definitions:
                    training = Relevance(base.definitions, self._imports, 1).training_names() & base.methods.keys()
                    yield from (
                        (base.methods[name], info)
                        for name in sorted(training)
                        if name not in info.methods and _calls_one_of(base.methods[name], info.methods)
                    )

    def _imported_training(self) -> set[str]:
        if self._imports is None or not self._within:
            return set()
        found: set[str] = set()
        for module in self._imports.modules(self.definitions, _WORDS):
            key = module, self._within - 1
            if key not in self._imports.training:
                self._imports.training[key] = Relevance(module, self._imports, self._within - 1).training_names()
            found |= self._imports.training[key]
        return found

    def _imported_changing(self) -> set[str]:
        """The imported functions that change a tensor in place by a method."""
        if self._imports is None or self._within < MAX_MODULES:
            return set()
        modules = self._imports.modules(self.definitions, (b"_(",))
        return {name for module in modules for name in Relevance(module).changing_names()}

    def changing_names(self) -> set[str]:
        """The names of the functions that change a tensor in place by a method."""
        return {info.name for info in self._with_callers(self._calling(INPLACE)) if info.owner is None}

    def _with_callers(self, functions: Iterable[FunctionInfo], *, of_classes: bool = False) -> list[FunctionInfo]:
        """Functions and their callers, in the order of the file; `of_classes` adds those that create objects."""
        relevant, calls = set(functions), self._calls
        names = {info.name for info in relevant} | _called_classes(relevant)
        if of_classes:
            names |= {info.owner.name for info in relevant if info.name == "__init__" and info.owner is not None}
        while True:
            callers = {info for info, called in calls.items() if info not in relevant and not called.isdisjoint(names)}
            if not callers:
                break
            relevant |= callers
            names |= ({info.name for info in callers} - {"__init__", "forward"}) | _called_classes(callers)
        return [info for info in self.definitions.functions.values() if info in relevant]

    @cached_property
    def _calls(self) -> dict[FunctionInfo, set[str]]:
        """The names of what each function calls."""
        found: dict[FunctionInfo, set[str]] = {}
        for call in self.tree.of_type(ast.Call):
            function = self.definitions.function_around(call)
            if function is not None:
                found.setdefault(function, set()).add(called_name(call))
        return found

    def _calling(self, names: Collection[str]) -> Iterator[FunctionInfo]:
        """Functions that call one of these, or bind a backward method to a name: `go = loss.backward`."""
        for call in self.tree.of_type(ast.Call):
            if called_name(call) in names:
                yield from self._functions(call)
        passes = _PASSES.intersection(names)
        for node in self.tree.of_type(ast.Assign):
            if isinstance(node.value, ast.Attribute) and node.value.attr in passes:
                yield from self._functions(node)

    def _changing(self, trains: bool) -> Iterator[FunctionInfo]:
        """Functions that change something in place, or keep something in a loop.

        If nothing trains, only tensors in use matter, and values that an evaluation keeps.
        """
        changed = list(changes.written(self.tree)) if trains else FileIndex.of(self.tree).tensor_changes
        calls = (call for call in self.tree.of_type(ast.Call) if called_name(call) in _KEEPING)
        kept = [call for call in calls if self._repeats(call)] if trains or self._keeps_tensors else []
        for node in (*changed, *kept):
            yield from self._functions(node)
        if any(isinstance(node, ast.Call) and changes.works_in_place(node) for node in changed):
            yield from (info for info in self.definitions.functions.values() if info.name == "forward")

    @property
    def _keeps_tensors(self) -> bool:
        index = FileIndex.of(self.tree)
        return index.keeps_while_evaluating or index.has_word((b"training_step",))

    def _naming(self) -> Iterator[FunctionInfo]:
        """Functions with a statement without effect: it names a method that acts, or calls one that only returns."""
        for statement in self.tree.of_type(ast.Expr):
            node, names = statement.value, ACTING_METHODS
            if isinstance(node, ast.Call):
                node, names = node.func, OUT_OF_PLACE
            if isinstance(node, ast.Attribute) and (node.attr in names or self._moves_tensor(node)):
                yield from self._functions(statement)

    def _moves_tensor(self, method: ast.Attribute) -> bool:
        """`x.to(device)` in a function that computed `x` by an operator: most other calls move modules."""
        if method.attr not in MOVING:
            return False
        owner = method.value
        owner = without_calls(owner, INPLACE)
        name, function = dotted(owner), self.definitions.function_around(method)
        if not name.isidentifier() or function is None:
            return False
        assigned = (node for node in walk(function.node) if isinstance(node, ast.Assign))
        made = [node.value for node in assigned if name in map(dotted, node.targets)]
        return any(isinstance(call, ast.Call) and called_name(call) in _OF_TENSORS for call in made)

    def _asked_for(self, calls: Collection[str]) -> Iterator[FunctionInfo]:
        names = set(calls)
        for node in self.tree.of_type(ast.Assign):
            if any(self._is_asked_for(item, calls) for item in _choices(node.value)):
                names.update(dotted(target).rpartition(".")[2] for target in node.targets)
        for call in self.tree.of_type(ast.Call):
            if self._called(call) in names:
                yield from self._functions(call)
        if "eval" in calls:
            methods = FileIndex.of(self.tree).methods_in_evaluation
            yield from (info for info in self.definitions.functions.values() if info.node in methods)

    def _is_asked_for(self, node: ast.expr, calls: Collection[str]) -> bool:
        """Whether an expression is the result of such a call, or the function itself: `F.mse_loss`."""
        if isinstance(node, ast.Call):
            return self._called(node) in calls
        return isinstance(node, ast.Attribute) and node.attr in calls

    def _called(self, call: ast.Call) -> str:
        """The last name of the callee, in the module it was imported from."""
        if isinstance(call.func, ast.Attribute):
            return call.func.attr
        return self.definitions.qualified(dotted(call.func)).rpartition(".")[2] or called_name(call)

    def _functions(self, node: ast.AST) -> Iterator[FunctionInfo]:
        function = self.definitions.function_around(node)
        if function is not None:
            yield function

    def _repeats(self, node: ast.AST) -> bool:
        """Whether a node is in a loop, or in a function that a framework calls for each batch."""
        for item in self.tree.ancestors(node):
            if isinstance(item, LOOPS):
                return True
            if isinstance(item, (*FUNCTIONS, ast.ClassDef)):
                return item.name == "training_step"
        return False


def _called_classes(functions: Iterable[FunctionInfo]) -> set[str]:
    """The classes whose objects run one of these functions when they are called: `step = Step(...)`, `step(loss)`."""
    return {info.owner.name for info in functions if info.name == "__call__" and info.owner is not None}


def _choices(node: ast.expr) -> list[ast.expr]:
    """An expression, or the two between which it chooses."""
    return [*_choices(node.body), *_choices(node.orelse)] if isinstance(node, ast.IfExp) else [node]


def _calls_one_of(method: FunctionInfo, names: Collection[str]) -> bool:
    """Whether a method calls, on its own object, a method with one of these names."""
    own = method.parameters[0] if method.parameters else ""
    calls = (node for node in walk(method.node) if isinstance(node, ast.Call))
    return any(dotted(call.func) == f"{own}.{called_name(call)}" and called_name(call) in names for call in calls)
