"""Conditions: the certain arms of an `if`, and the values that a test implies for names."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TypeGuard

from torchlint.model.cases import Case
from torchlint.model.frames import Frame
from torchlint.model.interpret.expressions.names import Names
from torchlint.model.interpret.machine import Machine, Part
from torchlint.model.interpret.transfer.attributes import Attributes
from torchlint.model.kinds import has_attribute, is_one_of
from torchlint.model.values import (
    Attribute,
    Class,
    Container,
    Function,
    Instance,
    List,
    Module,
    Optimizer,
    Phi,
    Plain,
    Set,
    Tensor,
    Tuple,
    Unknown,
    Value,
    inputs_of,
    is_none,
    resolved,
)
from torchlint.pytorch.effects import GradMode
from torchlint.syntax.dereferenced import is_dereferenced_later
from torchlint.syntax.python_ast import dotted, is_literal, is_main_guard

_TAKING = ("pop", "popleft", "popitem", "clear", "remove")
"""Methods that may leave a container empty."""


class Conditions(Part):
    """Answers about the tests of branches, at this point of the program."""

    def __init__(self, machine: Machine, attributes: Attributes, names: Names, case: Case | None) -> None:
        super().__init__(machine)
        self.attributes = attributes
        self.names = names
        self._case = case

    def certain_arm(self, node: ast.If) -> int | None:
        """The arm that runs, if that is known: 0 is the body, 1 the rest."""
        if is_main_guard(node.test):
            return 0 if self.definitions is self.machine.own else 1
        if not node.orelse and self._asked(node.test).endswith(".is_available"):
            return 0
        holds = self._truth(node.test)
        if holds is None:
            holds = is_dereferenced_later(node, self.definitions.tree.after(node))
        return None if holds is None else 0 if holds else 1

    def decided(self, node: ast.IfExp) -> ast.expr | None:
        """The operand that a conditional expression evaluates, if that is known."""
        holds = self._truth(node.test)
        return None if holds is None else node.body if holds else node.orelse

    def _truth(self, test: ast.expr) -> bool | None:
        """The truth of a test, if the grad mode, a module constant or the arguments of the call decide it."""
        if _is_not(test):
            return _negated(self._truth(test.operand))
        if isinstance(test, ast.BoolOp):
            decisive = isinstance(test.op, ast.Or)
            parts = {self._truth(part) for part in test.values}
            return decisive if decisive in parts else None if None in parts else not decisive
        answer = self._case.answer(test, self.definitions.tree) if self._case is not None else None
        if answer is not None:
            return answer
        if self._asked(test) == "torch.is_grad_enabled":
            return None if self.state.mode is GradMode.UNKNOWN else self.state.mode is GradMode.ON
        if isinstance(test, ast.Compare):
            return self._comparison_holds(test)
        if self._is_without_graph(test):
            return False
        kind = self._is_of_kind(test)
        if kind is not None:
            return kind
        value = self._certain_value(test)
        return None if value is None else _truth_of(value)

    def _asked(self, test: ast.expr) -> str:
        """The function that a test calls."""
        return self.definitions.qualified(dotted(test.func), test) if isinstance(test, ast.Call) else ""

    def _is_without_graph(self, test: ast.expr) -> bool:
        """Whether a test checks `loss.requires_grad` of a loss computed with gradients off."""
        if not (isinstance(test, ast.Attribute) and test.attr == "requires_grad"):
            return False
        value = self.state.frame.locals.get(test.value.id) if isinstance(test.value, ast.Name) else None
        return isinstance(value, Tensor) and value.mode is GradMode.OFF and not value.leaf

    def _is_of_kind(self, test: ast.expr) -> bool | None:
        """The truth of `isinstance(x, dict)`, `torch.is_tensor(x)` and `hasattr(x, "detach")` for a known `x`."""
        answers = {answer for _, answer in self._kinds_asked(test)}
        return answers.pop() if len(answers) == 1 else None

    def narrowed(self, test: ast.expr) -> tuple[str, list[Value]] | None:
        """A name whose type a test checks, `if torch.is_tensor(v):`, with its possible values in each arm."""
        inner, is_negated = (test.operand, True) if _is_not(test) else (test, False)
        answers = self._kinds_asked(inner)
        arms = [[value for value, answer in answers if answer is not wrong] for wrong in (False, True)]
        if not all(arms) or all(len(arm) == len(answers) for arm in arms):
            return None
        assert isinstance(inner, ast.Call) and isinstance(inner.args[0], ast.Name)
        name = inner.args[0].id
        whole = self.names.lookup(name)
        if isinstance(whole, Phi) and whole.is_loop:
            return None
        found = [_some_of(whole, arm) for arm in (reversed(arms) if is_negated else arms)]
        return name, found

    def _kinds_asked(self, test: ast.expr) -> list[tuple[Value, bool | None]]:
        """The values of a name whose type a test checks, each with the answer."""
        if not isinstance(test, ast.Call) or not test.args or not isinstance(test.args[0], ast.Name):
            return []
        asked, what = self._asked(test), test.args[1:]
        if asked not in ("torch.is_tensor", "isinstance", "hasattr") or len(what) != (asked != "torch.is_tensor"):
            return []
        return [
            (value, self._is_of(value, asked, what, test)) for value in inputs_of(self.names.lookup(test.args[0].id))
        ]

    def _is_of(self, value: Value, asked: str, what: list[ast.expr], test: ast.Call) -> bool | None:
        if asked == "hasattr":
            return has_attribute(value, what[0])
        kinds = [self.definitions.qualified(dotted(kind), test) for kind in _alternatives(what)]
        return is_one_of(value, kinds or ["torch.Tensor"])

    def is_the_same(self, test: ast.Compare) -> bool | None:
        """The truth of `optimizer is not None`, or of its opposite."""
        return self._comparison_holds(test) if isinstance(test.ops[0], (ast.Is, ast.IsNot)) else None

    def _comparison_holds(self, test: ast.Compare) -> bool | None:
        """The truth of `mode == "train"`, `phase is Phase.TRAIN`, `mode in ("train", "fit")`, or of their opposites."""
        if len(test.ops) > 1:
            return None
        operator = test.ops[0]
        left, right = self._certain_value(test.left), self._certain_value(test.comparators[0])
        if left is None or right is None:
            return None
        if isinstance(operator, (ast.In, ast.NotIn)):
            holds = self._holds(right, left)
        else:
            holds = self._equal(left, right)
        if isinstance(operator, (ast.Eq, ast.Is, ast.In)):
            return holds
        return _negated(holds) if isinstance(operator, (ast.NotEq, ast.IsNot, ast.NotIn)) else None

    def _holds(self, container: Value, value: Value) -> bool | None:
        """Whether a tuple, list or set of certain values holds a value."""
        if not isinstance(container, (Tuple, List, Set)):
            return None
        return _any(self._equal(item, value) for item in container.elements())

    def _equal(self, left: Value, right: Value) -> bool | None:
        if left is right:
            return True
        if isinstance(left, Plain) and isinstance(right, Plain):
            return left.constant == right.constant if left.is_literal and right.is_literal else None
        for value, other in ((left, right), (right, left)):
            if is_none(value):
                return False if self._is_object(other) else None
        members = self._is_enum_member(left) and self._is_enum_member(right)
        return False if members and left.parents == right.parents else None

    def _is_object(self, value: Value) -> bool:
        """Whether a value is certainly not None."""
        kinds = (Optimizer, Module, Instance, Function, Class, Container, Tensor)
        return all(isinstance(item, kinds) or self._is_enum_member(item) for item in inputs_of(value))

    def _is_enum_member(self, value: Value) -> bool:
        """Whether a value is a member of an enumeration of this module."""
        owner = value.parents[0] if isinstance(value, Unknown) and value.parents else None
        return isinstance(owner, Class) and any(name.rpartition(".")[2].endswith("Enum") for name in owner.info.bases)

    def _certain_value(self, node: ast.expr) -> Value | None:
        """The value of a literal, a module constant, an argument of a running call, or an enumeration's member."""
        if isinstance(node, ast.Constant):
            return self.machine.value(node)
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            values = [self._certain_value(item) for item in node.elts]
            return Tuple(node, tuple(item for item in values if item)) if None not in values else None
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return self._certain_attribute(self.names.lookup(node.value.id), node)
        if isinstance(node, ast.Name):
            return self._certain_name(node.id)
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
        ):
            return self._certain_answer(node.func.value.id, node.func.attr)
        return None

    def _certain_answer(self, name: str, method: str) -> Value | None:
        """The constant that a method of an object created here always returns: `model.name()`.

        A derived class may override the method for `self`.
        """
        around = self.state.frame.info
        if around is not None and around.is_method and name in around.parameters[:1]:
            return None
        owner = self.names.lookup(name)
        info = owner.info if isinstance(owner, (Instance, Module)) else None
        function = info.method(method) if info is not None else None
        if function is None or isinstance(function.node, ast.Lambda) or function.node.decorator_list:
            return None
        last = function.node.body[-1]
        is_alone = len(function.node.body) == 1 + (ast.get_docstring(function.node) is not None)
        if is_alone and isinstance(last, ast.Return) and isinstance(last.value, ast.Constant):
            return self.machine.value(last.value)
        return None

    def _certain_attribute(self, owner: Value, node: ast.Attribute) -> Value | None:
        """A member of an enumeration, or an attribute that only the `__init__` of an object created here stores."""
        name = node.attr
        if isinstance(owner, Class):
            member = self.attributes.lookup(owner, name, node)
            return member if self._is_enum_member(member) else None
        found = self.state.certain.get((owner, name))
        if found is not None and self.state.heap.get((owner, name)) is found:
            return found
        info = owner.info if isinstance(owner, (Instance, Module)) else None
        if info is not None and info.writers(name) == {"__init__"}:
            values = [
                item for item in inputs_of(self.attributes.lookup(owner, name, node)) if not _is_put_by_others(item)
            ]
            return values[0] if len(values) == 1 else None
        return None

    def _certain_name(self, name: str) -> Value | None:
        """The value of a name: an argument, the result of a test, a constant, or the key that a loop has reached.

        The argument may be of a running call here or in an enclosing function. The loop takes the known entries of a
        dictionary in turn.
        """
        frame: Frame | None = self.state.frame
        while frame is not None and name not in frame.locals:
            frame = frame.parent
        if frame is None:
            return None
        value = frame.locals[name]
        made = value.site.written if isinstance(value, Plain) and value.site is not None else None
        if made is not None and made.is_of(ast.For, ast.AsyncFor) and isinstance(value, Plain) and value.is_literal:
            return value
        if frame.parent is None:
            return value if name in self.definitions.constants else None
        is_argument = frame.called and frame.info is not None and name in frame.info.parameters
        is_comparison = made is not None and made.is_of(ast.Compare)
        return value if (is_argument and not isinstance(value, Phi)) or is_comparison else None

    def absent(self, test: ast.expr) -> tuple[str, int] | None:
        """A name that is None in one of two arms, and that arm, for `h is None`, `h is not None`, `h`, `not h`."""
        inverted = False
        if _is_not(test):
            test, inverted = test.operand, True
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and is_literal(test.comparators[0], None):
            inverted = inverted is not isinstance(test.ops[0], ast.Is)
            test = test.left
        if not isinstance(test, ast.Name):
            return None
        value = self.state.frame.locals.get(test.id)
        maybe = isinstance(value, Phi) and any(map(is_none, inputs_of(value)))
        return (test.id, 0 if inverted else 1) if maybe else None

    def overflow_arm(self, test: ast.expr) -> int | None:
        """The arm of `scaler.get_scale() < before` with a smaller scale: the scaler skipped the step."""
        if not isinstance(test, ast.Compare) or len(test.ops) > 1:
            return None
        left, right = self._scale_read(test.left), self._scale_read(test.comparators[0])
        if left is None or right is None or left == right:
            return None
        operator, is_first_later = test.ops[0], left > right
        if isinstance(operator, (ast.NotEq, ast.Lt if is_first_later else ast.Gt)):
            return 0
        return 1 if isinstance(operator, (ast.Eq, ast.GtE if is_first_later else ast.LtE)) else None

    def _scale_read(self, node: ast.expr) -> float | None:
        """The time at which the program read the scale of a gradient scaler in an expression; None if it did not."""
        if isinstance(node, ast.Call):
            is_scale = isinstance(node.func, ast.Attribute) and node.func.attr == "get_scale"
            return float("inf") if is_scale else None
        value = resolved(self.names.lookup(node.id)) if isinstance(node, ast.Name) else None
        made = isinstance(value, Unknown) and value.callee is not None and value.callee.label == "get_scale"
        return value.order if value is not None and made else None

    def layer_asked_for(self, test: ast.expr) -> Value | None:
        """The layer of PyTorch that a test checks for: `isinstance(module, nn.Linear)`."""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            return next((layer for part in test.values if (layer := self.layer_asked_for(part)) is not None), None)
        if not isinstance(test, ast.Call) or dotted(test.func) != "isinstance" or len(test.args) != 2:
            return None
        name, kind = test.args[0], self.definitions.qualified(dotted(test.args[1]), test)
        value = self.state.frame.locals.get(name.id) if isinstance(name, ast.Name) else None
        return value if kind.startswith("torch.nn.") and isinstance(value, Unknown) else None


def _truth_of(value: Value) -> bool | None:
    if isinstance(value, Plain):
        return bool(value.constant) if value.is_literal else None
    if isinstance(value, Container):
        return True if value.elements() and not value.has_use(*_TAKING) else None
    return True if isinstance(value, (Optimizer, Function, Class)) else None


def _negated(holds: bool | None) -> bool | None:
    return None if holds is None else not holds


def _any(answers: Iterable[bool | None]) -> bool | None:
    found: bool | None = False
    for answer in answers:
        if answer is True:
            return True
        found = None if answer is None else found
    return found


def _alternatives(kinds: list[ast.expr]) -> Iterator[ast.expr]:
    """The classes of `isinstance`: `dict`, `(list, tuple)`, `list | tuple`."""
    for kind in kinds:
        if isinstance(kind, ast.Tuple):
            yield from _alternatives(kind.elts)
        elif isinstance(kind, ast.BinOp):
            yield from _alternatives([kind.left, kind.right])
        else:
            yield kind


def _is_put_by_others(value: Value) -> bool:
    """Whether a value stands for a subclass's or another user's replacement of None."""
    return isinstance(value, Attribute)


def _is_not(test: ast.expr) -> TypeGuard[ast.UnaryOp]:
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)


def _some_of(whole: Value, values: list[Value]) -> Value:
    """The choice between some of a value's alternatives."""
    if len(values) == 1 or not isinstance(whole, Phi):
        return values[0]
    some = Phi(whole.site, tuple(values), whole.loop)
    some.source, some.is_keyed, some.order, some.loops = whole.source, whole.is_keyed, whole.order, whole.loops
    return some
