"""Whether a container lets go of the graphs that iterations leave in it: emptied, cut, begun anew, or bounded."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from torchlint import Model
from torchlint.model.definitions import FunctionInfo, defaults_of
from torchlint.model.events import Call, Keep, Keeping, Loop, Step, apart
from torchlint.model.lineage import left_by_iterations
from torchlint.model.program import Trace
from torchlint.model.values import Answer, BoundMethod, Container, Phi, Value, is_none, resolved
from torchlint.syntax.python_ast import called_name, dotted, walk

from ._bounds import Bounds

_TAKING = ("pop", "popleft")
_SELDOM = 100
"""Iterations of which a list holds all graphs, though it is made anew after so many."""
_EMPTYING = ("clear", *_TAKING)


class LetGo:
    """Answers about what is kept in lists, sums, dictionaries and attributes."""

    def __init__(self, model: Model) -> None:
        self.program = model.program
        self.tracking = model.tracking
        self._bounds = Bounds(model.tree)
        self._known_changes: dict[ast.AST, dict[str, list[tuple[ast.AST, bool]]]] = {}
        self._known_calls: dict[ast.AST, set[str]] = {}

    def is_let_go(self, keep: Keep, container: Value, loop: Loop | None, trace: Trace) -> bool:
        """Whether what an iteration of a loop keeps there does not stay."""
        return (
            self._drained(container, loop, trace)
            or self._is_cut_in_place(keep, container, loop, trace)
            or self._is_cut(keep.container)
            or self._is_reset_with_steps(keep.container, trace)
            or self._is_reset_by_method(keep, loop)
            or self._is_rebuilt(keep, loop)
            or _is_replaced_once_full(keep, container, trace)
            or self._may_be_reset(keep, loop, trace)
            or self._bounds.are_set(keep, loop)
        )

    def is_emptied(self, trace: Trace, container: Value) -> bool:
        """Whether a method of the object empties a list, or makes it anew."""
        root = trace.root
        if root is None or root.owner is None:
            return True
        stored = self.program.observations.stored
        names = {name for (owner, name), value in stored.items() if owner is trace.receiver and value is container}
        emptied = {f"{root.parameters[0]}.{name}.{verb}" for name in names for verb in _EMPTYING}
        makers = {maker for name in names for maker in root.owner.assigned.get(name, ())}
        calls = self.program.nodes(ast.Call)
        return bool(makers - {"__init__"}) or any(dotted(call.func) in emptied for call in calls)

    def _may_be_reset(self, keep: Keep, loop: Loop | None, trace: Trace) -> bool:
        """`meter.total += loss` beside `meter.update()`, of which nobody knows what it does to the total."""
        owner = keep.name.rpartition(".")[0]
        calls = [call for call in trace.of(Call) if owner and loop in call.loops]
        tree = self.program.tree
        methods = (call.value.callee for call in calls if tree.stands_alone(tree.node(call.site)))
        return any(isinstance(item, BoundMethod) and resolved(item.parents[0]).label == owner for item in methods)

    def _is_cut_in_place(self, keep: Keep, container: Value, loop: Loop | None, trace: Trace) -> bool:
        """`hidden[i] = repackage(hidden[i])` before the entry is set again: what it held lets its graph go."""
        return keep.how is Keeping.SLOT and any(
            other.how is Keeping.SLOT
            and resolved(other.container) is container
            and loop in other.loops
            and other.order < keep.order
            and self.tracking.tracked(other.value) is not Answer.YES
            for other in trace.of(Keep)
        )

    def _drained(self, container: Value, loop: Loop | None, trace: Trace) -> bool:
        emptied = list(trace.emptied.get(container, ()))
        entries = container.elements() if isinstance(container, Container) else []
        if entries and all(item in trace.emptied for item in entries):
            emptied += trace.emptied[entries[0]]
        if container.has_use(*_TAKING) or (container.has_use("clear") and not emptied):
            return True
        return any(loop is None or loop in event.loops for event in emptied)

    def _is_rebuilt(self, keep: Keep, loop: Loop | None) -> bool:
        """Whether a loop makes a list anew, now and then, or changes what is in it."""
        if loop is None or keep.how is Keeping.ADD or not keep.name:
            return False
        if "." not in keep.name and keep.place_in(loop) != keep.site:
            return False  # a name of another function
        changes = self._changes_in(self.program.tree.node(loop.site)).get(keep.name, [])
        return any(
            not is_entry or keep.how is Keeping.APPEND for change, is_entry in changes if not self._is_seldom(change)
        )

    def _changes_in(self, loop: ast.AST) -> dict[str, list[tuple[ast.AST, bool]]]:
        """By name what a loop does to lists, and whether to an entry; each loop is looked through once."""
        if loop not in self._known_changes:
            found = self._known_changes[loop] = {}
            for node in walk(loop):
                for name, is_entry in _changed_by(node):
                    found.setdefault(name, []).append((node, is_entry))
        return self._known_changes[loop]

    def _is_seldom(self, change: ast.AST) -> bool:
        """Whether a condition lets something happen once in a hundred iterations, or less often."""
        around = (item.test for item in self.program.tree.ancestors(change) if isinstance(item, ast.If))
        numbers = (item.value for test in around for item in walk(test) if isinstance(item, ast.Constant))
        return any(type(number) is int and number >= _SELDOM for number in numbers)

    def _is_reset_with_steps(self, total: Value, trace: Trace) -> bool:
        """Whether a sum begins anew, or goes on without its graph, wherever the optimizer steps, or as often."""
        if not isinstance(total, Phi) or not total.is_loop:
            return False
        joined = (item for item in left_by_iterations(total) if isinstance(item, Phi))
        met = (pair for item in joined for pair in item.arms.items())
        resets = {arm for part, arms in met if self._is_new(part) for arm in arms}
        steps = {arm for step in trace.of(Step) if total.loop in step.loops for arm in step.path}
        asked = {ast.unparse(test) for test in map(self.program.asked_before, steps) if test is not None}
        tests = [test for test in map(self.program.asked_before, resets) if test is not None]
        return not resets.isdisjoint(steps) or any(
            dotted(test).endswith(".sync_gradients") or ast.unparse(test) in asked or self._is_often(test)
            for test in tests
        )

    def _is_new(self, part: Value) -> bool:
        return not is_none(part) and self.tracking.tracked(part) is Answer.NO

    def _is_often(self, test: ast.expr) -> bool:
        """`i % 10 == 0`, `i % args.every == 0`: unless the file says that it is once in a hundred iterations, or less
        often, if by the default of a parameter or an option."""
        moduli = (node.right for node in walk(test) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod))
        periods = [self._number(item) for item in moduli]
        return bool(periods) and all(period is None or period < _SELDOM for period in periods)

    def _number(self, node: ast.expr) -> int | None:
        """What a number is as it is written, or what its name is set to or is by default; None: not known."""
        name = dotted(node).rpartition(".")[2]
        values = [node, *self._defaults.get(name, ())] if name else [node]
        numbers = [item.value for item in values if isinstance(item, ast.Constant) and type(item.value) is int]
        return max(numbers, default=None)

    @cached_property
    def _defaults(self) -> dict[str, list[ast.expr]]:
        """By name what is assigned, and the defaults of parameters and of the options of the command line."""
        found: dict[str, list[ast.expr]] = {}
        for statement in self.program.tree.of_type(ast.Assign):
            for target in statement.targets:
                found.setdefault(dotted(target).rpartition(".")[2], []).append(statement.value)
        for function in self.program.definitions.functions.values():
            for name, default in defaults_of(function.node).items():
                found.setdefault(name, []).append(default)
        for call in self.program.tree.of_type(ast.Call):
            if called_name(call) == "add_argument":
                flags = [item.value for item in call.args if isinstance(item, ast.Constant)]
                names = [str(flag).lstrip("-").replace("-", "_") for flag in flags]
                for item in call.keywords:
                    if item.arg == "default":
                        for name in names:
                            found.setdefault(name, []).append(item.value)
        return found

    def _is_reset_by_method(self, keep: Keep, loop: Loop | None) -> bool:
        """Whether a loop calls a method, or a function that does, which begins the sum or list of an object anew, or
        the object: `self.memory.clear()` for `self.memory.losses`."""
        tree, names = self.program.tree, frozenset(keep.name.split(".")[1:])
        method = self.program.definitions.method_around(tree.node(keep.site))
        if loop is None or method is None or not names or keep.how not in (Keeping.ADD, Keeping.APPEND):
            return False
        whose = method.owner if len(names) == 1 else None  # the attribute of another object may be set by any
        body = tree.node(loop.site)
        if _sets(body, names - {keep.name.rpartition(".")[2]}):
            return True
        called = new = _called_in(body) | _called_in(method.node) | {"<lambda>"}
        while new:
            functions = [item for item in self._functions if item.name in new and item is not method]
            setting = (item for item in functions if whose is None or whose.is_related_to(item.owner))
            if any(item.name != "__init__" and _may_rebind(item.node, names) for item in setting):
                return True
            new = set().union(*(self._called_by(item.node) for item in functions)) - called
            called |= new
        return False

    @cached_property
    def _functions(self) -> list[FunctionInfo]:
        return [item for file in self.program.files.values() for item in file.functions.values()]

    def _called_by(self, function: ast.AST) -> set[str]:
        if function not in self._known_calls:
            self._known_calls[function] = _called_in(function)
        return self._known_calls[function]

    def _is_cut(self, total: Value) -> bool:
        """Whether a sum goes on without its graph: `total = total.detach()` at the end of each iteration."""
        carried = total.parents[1:] if isinstance(total, Phi) and total.is_loop else ()
        return bool(carried) and all(self.tracking.tracked(item) is Answer.NO for item in carried)


def _changed_by(node: ast.AST) -> Iterator[tuple[str, bool]]:
    """The lists that `kept = []`, `kept = [item.detach() for item in kept]`, or a loop that detaches each, changes; or
    whose entry, as `kept[-1] = 0` does."""
    if isinstance(node, (ast.For, ast.AsyncFor)):
        if any(isinstance(item, ast.Call) and called_name(item) == "detach_" for item in walk(node)):
            yield dotted(node.iter), False
    if not isinstance(node, ast.Assign):
        return
    for target in node.targets:
        if isinstance(target, ast.Subscript) and not isinstance(node.value, ast.List):
            yield dotted(target.value), True
        elif not isinstance(target, ast.Subscript) and not isinstance(node.value, ast.BinOp):
            yield dotted(target), False


def _is_replaced_once_full(keep: Keep, container: Value, trace: Trace) -> bool:
    """A pool of images: where `pool.append(image)` does not run, `pool[i] = image` does."""
    return any(
        {keep.how, other.how} == {Keeping.APPEND, Keeping.SLOT}
        and resolved(other.container) is container
        and apart(keep, other)
        for other in trace.of(Keep)
    )


def _may_rebind(function: ast.AST, names: frozenset[str]) -> bool:
    """Whether a function sets attributes of these names, or some, nobody knows which, or makes an object anew."""
    return _sets(function, names) or any(_sets_some(node) or _empties(node, names) for node in walk(function))


def _sets(node: ast.AST, names: frozenset[str]) -> bool:
    """Whether attributes of these names are set anew, or deleted."""
    added_to = {item.target for item in walk(node) if isinstance(item, ast.AugAssign)}
    attributes = (item for item in walk(node) if isinstance(item, ast.Attribute) and item.attr in names)
    return any(not isinstance(item.ctx, ast.Load) and item not in added_to for item in attributes)


def _sets_some(node: ast.AST) -> bool:
    """`setattr(self, name, [])`, `getattr(self, name).clear()`, what is done with `vars(self)`, and `self.__init__()`,
    but not `super().__init__()`."""
    if isinstance(node, ast.Attribute) and node.attr in ("__dict__", "__init__"):
        return dotted(node.value) != ""
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute) and node.func.attr in _EMPTYING:
        return isinstance(node.func.value, ast.Call) and dotted(node.func.value.func) == "getattr"
    name = dotted(node.func)
    return name == "vars" or (name == "setattr" and len(node.args) > 1 and not isinstance(node.args[1], ast.Constant))


def _empties(node: ast.AST, names: frozenset[str]) -> bool:
    """`for kept in (self.losses, self.rewards): del kept[:]`."""
    if not isinstance(node, ast.For) or not isinstance(node.iter, (ast.List, ast.Tuple)):
        return False
    if names.isdisjoint(dotted(item).rpartition(".")[2] for item in node.iter.elts):
        return False
    return any(
        isinstance(item, ast.Delete) or called_name(item) in _EMPTYING
        for item in walk(node)
        if isinstance(item, (ast.Delete, ast.Call))
    )


def _called_in(node: ast.AST) -> set[str]:
    return {called_name(item) for item in walk(node) if isinstance(item, ast.Call)}
