"""Why an iteration that goes backward may leave out the step."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from enum import Enum, auto

from torchlint.model import Model
from torchlint.model.events import Backward, Branch, Clip, GradRead, Loop, Step
from torchlint.syntax.python_ast import SCOPES, TRIES, called_name, dotted, names_in, walk

_BINDING = (ast.Assign, ast.AnnAssign, ast.NamedExpr)


class Reason(Enum):
    """Why there is no step."""

    ACCUMULATION = auto()
    """A number of iterations adds up: their gradients are to stay until the step."""
    REFUSAL = auto()
    """The iteration's result is refused, or an error ended it: its gradients must go."""
    CONSTANT = auto()
    """Something decides that is the same in all iterations, or in all but the first: they all step, or none does."""
    UNKNOWN = auto()


class SkippedSteps:
    """Reads the conditions between a backward pass and the steps that use its gradients."""

    def __init__(self, model: Model, backward: Backward, loop: Loop | None) -> None:
        """The pass is one of an iteration of `loop`, or (None) of a call of its function."""
        self._program = model.program
        self._definitions = model.definitions
        self._tracking = model.tracking
        self._tree = model.tree
        self._backward = backward
        self._loop = loop

    def conditions(self, steps: Iterable[Step]) -> set[object]:
        """The branches that may come between the pass and a step: around the step, or left before it."""
        return {branch for step in steps for branch in self._between(step)}

    def reasons(self, steps: Iterable[Step]) -> set[Reason]:
        """The reasons why a step does not follow the pass: conditions, and errors that are caught."""
        between = self.conditions(steps)
        tests = [self._tree.node(branch.site) for branch in between if isinstance(branch, Branch)]
        found = {self._reason(test) for test in tests}
        if Reason.ACCUMULATION in found and len(tests) == len(between):
            return found  # a window of several iterations goes on after an error
        return found | {Reason.REFUSAL} if len(tests) < len(between) or self._is_caught() else found

    def _is_caught(self) -> bool:
        """Whether an error of the pass ends in a handler of the same iteration."""
        node = self._tree.node(self._backward.site)
        around = self._repeated(node)
        for item in self._tree.ancestors(node):
            if item is around:
                break
            if isinstance(item, TRIES) and item.handlers:
                return True
        return False

    def _between(self, step: Step) -> Iterator[object]:
        known = {*self._backward.path, *self._backward.passed}
        yield from (branch for branch, arm in (*step.path, *step.passed) if (branch, arm) not in known)

    def _reason(self, node: ast.AST) -> Reason:
        if not isinstance(node, ast.If):
            return Reason.UNKNOWN
        around = self._repeated(node)
        if _is_all_but_first(node.test, around):
            return Reason.CONSTANT
        is_computed = self._reads_gradients(node.test) or not names_in(node.test).isdisjoint(self._computed(around))
        is_counted = self._counts(node, around)
        if is_computed or is_counted:
            both = is_computed and is_counted
            return Reason.UNKNOWN if both else Reason.REFUSAL if is_computed else Reason.ACCUMULATION
        return Reason.CONSTANT if self._is_constant(node.test, around) else Reason.UNKNOWN

    def _repeated(self, node: ast.AST) -> ast.AST:
        """The loop around a condition, in its own function; else that function."""
        repeated = self._tree.node(self._loop.site) if self._loop is not None else None
        for item in self._tree.ancestors(node):
            if item is repeated or isinstance(item, SCOPES):
                return item
        return self._tree.module

    def _reads_gradients(self, test: ast.expr) -> bool:
        return any(isinstance(item, ast.Attribute) and item.attr == "grad" for item in walk(test))

    def _computed(self, around: ast.AST) -> set[str]:
        """The names that an iteration binds to the loss, to its gradients' size, and to what is computed of them."""
        graph = self._tracking.graph(self._backward.loss, carried=False)
        sites = [value.site for value in graph if value.site is not None]
        sites += [event.site for trace in self._program.traces for event in trace.of_kinds(Clip, GradRead)]
        makers = {item for node in map(self._tree.node, sites) for item in (node, *self._tree.ancestors(node))}
        sources = {node: names_in(node.value) for node in walk(around) if isinstance(node, _BINDING) and node.value}
        names = {name for node in sources if node in makers for name in _bound(node)}
        while True:
            more = {name for node, read in sources.items() if not names.isdisjoint(read) for name in _bound(node)}
            if more <= names:
                return names
            names |= more

    def _counts(self, node: ast.If, around: ast.AST) -> bool:
        """Whether a condition asks for the number of the iteration, or for a count that begins anew where it holds."""
        if any(isinstance(item, ast.BinOp) and isinstance(item.op, ast.Mod) for item in walk(node.test)):
            return True
        raised = {dotted(item.target) for item in walk(around) if isinstance(item, ast.AugAssign)}
        reset = self._definitions.names_assigned(node.body)
        if not (names_in(node.test) & raised).isdisjoint(reset):
            return True
        counter = around.target if isinstance(around, (ast.For, ast.AsyncFor)) else None
        is_one = isinstance(node.test, ast.Compare) and isinstance(node.test.ops[0], ast.Eq)
        return is_one and counter is not None and not names_in(node.test).isdisjoint(names_in(counter))

    def _is_constant(self, test: ast.expr, around: ast.AST) -> bool:
        """Whether a condition is about names alone that no iteration binds."""
        if isinstance(around, SCOPES) or any(isinstance(item, (ast.Call, ast.Attribute)) for item in walk(test)):
            return False
        return names_in(test).isdisjoint(self._definitions.assigned_names(around))


def _is_all_but_first(test: ast.expr, around: ast.AST) -> bool:
    """Whether a test holds from the second iteration on: `i > 0`, where `i` counts them."""
    counter = _counter(around)
    if isinstance(test, ast.Name):
        return test.id == counter
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or dotted(test.left) != counter or not counter:
        return False
    first = test.comparators[0]
    return isinstance(first, ast.Constant) and (type(test.ops[0]), first.value) in _FROM_THE_SECOND


_FROM_THE_SECOND = {(ast.Gt, 0), (ast.NotEq, 0), (ast.GtE, 1)}


def _counter(around: ast.AST) -> str:
    """The name that counts the iterations of a loop over `range(n)` or `enumerate(...)`, from zero."""
    over = around.iter if isinstance(around, (ast.For, ast.AsyncFor)) else None
    if not isinstance(around, (ast.For, ast.AsyncFor)) or not isinstance(over, ast.Call):
        return ""
    name, target = called_name(over), around.target
    if name == "enumerate" and len(over.args) == 1 and not over.keywords and isinstance(target, ast.Tuple):
        return dotted(target.elts[0])
    return dotted(target) if name == "range" and len(over.args) == 1 else ""


def _bound(node: ast.AST) -> set[str]:
    """The names that an assignment binds."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {name for target in targets if target is not None for name in names_in(target)}
