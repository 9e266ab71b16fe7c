"""Weight averages: the shares of the average and the new weights in an update, as exact fractions."""

from __future__ import annotations

import ast
import copy
import zlib
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from torchlint.model.queries import default_numbers, names
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.model.definitions import Definitions

Linear = dict[str, Fraction]
"""The share of each tensor in a sum; a plain number is the share of `1`."""
_ONE = ""
_SAME = frozenset("detach float double half cpu cuda to clone type type_as data contiguous value".split())
"""Methods and attributes that do not change the numbers of a tensor."""
_OPERATIONS = frozenset("mul div add sub lerp copy".split())
_DEPTH = 3
_TRIALS = 3


class AverageUpdate(NamedTuple):
    """The average `name` changes at `node`.

    It keeps these shares of itself and adds these of the other tensor, for several values of the `rates` between 0 and
    1.
    """

    node: ast.AST
    name: str
    kept: tuple[Fraction, ...]
    new: tuple[Fraction, ...]
    rates: dict[str, tuple[Fraction, ...]]
    default: float | None
    """The default value of the only rate."""

    @property
    def rate(self) -> str | None:
        """The number that controls the update, if there is exactly one."""
        return next(iter(self.rates)) if len(self.rates) == 1 else None


def average_updates(loop: ast.For, known: Definitions) -> Iterator[AverageUpdate]:
    """The averages that one iteration over the tensors of two networks changes, each with its last change."""
    trials = [_Trial(loop, known, trial) for trial in range(_TRIALS)]
    for trial in trials:
        trial.run(loop.body, _DEPTH)
    for name, node in trials[0].changed.items():
        forms = [trial.env.get(name) for trial in trials]
        if any(form is None or len(form) != 2 or name not in form or _ONE in form for form in forms):
            continue
        kept = tuple(form[name] for form in forms if form is not None)
        new = tuple(share for form in forms if form is not None for other, share in form.items() if other != name)
        rates = {rate: tuple(trial.rates[rate] for trial in trials) for rate in trials[0].rates_of[name]}
        yield AverageUpdate(node, name, kept, new, rates, trials[0].default)


class _Trial:
    """One run through the body of a loop, with each unknown number replaced by a fraction between 0 and 1."""

    def __init__(self, loop: ast.For, known: Definitions, trial: int) -> None:
        self._known = known
        self._trial = trial
        self._variables = {item.id for item in python_ast.walk(loop.target) if isinstance(item, ast.Name)}
        self.env: dict[str, Linear | None] = {}
        self.rates: dict[str, Fraction] = {}
        self.default: float | None = None
        self.changed: dict[str, ast.AST] = {}
        self._aliases: dict[str, str] = {}
        self.rates_of: dict[str, tuple[str, ...]] = {}
        """The numbers that were read before each change."""

    def run(self, body: list[ast.stmt], depth: int) -> None:
        for statement in body:
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                self._assign(statement.targets[0], statement.value, depth)
            elif isinstance(statement, ast.AugAssign):
                own, other = self.form(statement.target, depth), self.form(statement.value, depth)
                self._store(statement.target, self._operate(statement.op, own, other))
            elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                self.form(statement.value, depth)
            elif isinstance(statement, ast.With):
                self.run(statement.body, depth)
            elif isinstance(statement, ast.If):
                self._branch(statement, depth)
            elif not isinstance(statement, (ast.Assert, ast.Pass, ast.Continue, ast.Expr)):
                self._forget(statement)

    def _branch(self, statement: ast.If, depth: int) -> None:
        """Continue into the body of a guard on types or names; other statements may change any name in them."""
        if statement.orelse or any(isinstance(item, (ast.Continue, ast.Break)) for item in statement.body):
            self._forget(statement)
        else:
            before = dict(self.env)
            self.run(statement.body, depth)
            changed = [name for name in self.env if before.get(name, self.env[name]) != self.env[name]]
            for name in changed:
                self.env[name] = None

    def _forget(self, statement: ast.stmt) -> None:
        leaves = isinstance(statement, ast.If) and all(
            isinstance(item, (ast.Continue, ast.Raise)) for item in statement.body
        )
        if not (leaves and isinstance(statement, ast.If) and not statement.orelse):
            for item in python_ast.walk(statement):
                if isinstance(item, (ast.Name, ast.Subscript)):
                    self.env[ast.unparse(item)] = None

    # -- names ------------------------------------------------------------------------------------------

    def _place(self, node: ast.expr) -> str:
        """The name of a tensor: `p` of `p.data` and `p.float()`, `shadow[name]`."""
        text = ast.unparse(_root(node))
        return self._aliases.get(text, text)

    def _assign(self, target: ast.expr, value: ast.expr, depth: int) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            for one, other in zip(target.elts, value.elts, strict=True):
                self._assign(one, other, depth)
            return
        form = self.form(value, depth)
        source = self._place(value)
        if isinstance(target, ast.Name) and form == {source: Fraction(1)} and not _copies(value):
            self._aliases[target.id] = source
            self.env.setdefault(source, form)
        else:
            self._store(target, form)

    def _store(self, target: ast.expr, form: Linear | None) -> None:
        place = self._place(target)
        self.env[place] = form
        if not isinstance(target, ast.Name) or target.id in self._variables or place != target.id:
            self.changed[place] = target
            self.rates_of[place] = tuple(self.rates)

    # -- expressions ------------------------------------------------------------------------------------

    def form(self, node: ast.expr, depth: int) -> Linear | None:
        """An expression as a sum of tensors; None for anything else."""
        if isinstance(node, ast.Constant):
            return {_ONE: Fraction(str(node.value))} if type(node.value) in (int, float) else None
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return _times(self.form(node.operand, depth), Fraction(-1))
        if isinstance(node, ast.BinOp):
            return self._operate(node.op, self.form(node.left, depth), self.form(node.right, depth))
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        return self._read(node)

    def _read(self, node: ast.expr) -> Linear | None:
        place = self._place(node)
        if place in self.env:
            return self.env[place]
        root = _root(node)
        if isinstance(root, ast.Name) and root.id in self._variables:
            return {place: Fraction(1)}
        if isinstance(root, ast.Subscript):
            own = isinstance(root.slice, ast.Name) and root.slice.id in self._variables
            return {place: Fraction(1)} if own else self._number(root)
        return self._number(root) if isinstance(root, (ast.Name, ast.Attribute)) else None

    def _number(self, node: ast.expr) -> Linear | None:
        """A number that is the same for all tensors: the value assigned to its name, or one between 0 and 1."""
        value = names.only_value(node, self._known) if isinstance(node, ast.Name) else None
        if value is not None and isinstance(value, (ast.BinOp, ast.Constant)):
            return self.form(value, 0)
        text = ast.unparse(node)
        self.default = default_numbers.default_number(node, self._known)
        self.rates[text] = Fraction(zlib.crc32(f"{text} {self._trial}".encode()) % 997 + 1, 1000)
        return {_ONE: self.rates[text]}

    def _call(self, call: ast.Call, depth: int) -> Linear | None:
        name = python_ast.called_name(call)
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if owner is not None and name in _SAME:
            return self.form(owner, depth)
        given = {item.arg: item.value for item in call.keywords}
        if owner is not None and name.rstrip("_") in _OPERATIONS and call.args:
            form = self._method(name.rstrip("_"), self.form(owner, depth), call, given, depth)
            if name.endswith("_"):
                self._store(owner, form)
            return form
        if name == "lerp" and len(call.args) == 3:
            return self._lerp(*(self.form(item, depth) for item in call.args))
        inlined = self._inlined(call, depth)
        is_own = python_ast.dotted(call.func).startswith("self.") and not self._variables & python_ast.names_read(call)
        return self._number(call) if inlined is None and is_own else inlined

    def _method(
        self, name: str, own: Linear | None, call: ast.Call, given: Mapping[str | None, ast.expr], depth: int
    ) -> Linear | None:
        first, *others = (self.form(item, depth) for item in call.args)
        if name == "copy":
            return first
        if name == "lerp":
            weight = others[0] if others else self.form(given["weight"], depth) if "weight" in given else None
            return self._lerp(own, first, weight)
        if name in ("add", "sub"):
            scale = self.form(given["alpha"], depth) if "alpha" in given else {_ONE: Fraction(1)}
            if others:
                first, scale = others[0], first  # the old form `add_(alpha, other)`
            first = self._operate(ast.Mult(), first, scale)
        operators = {"mul": ast.Mult(), "div": ast.Div(), "add": ast.Add(), "sub": ast.Sub()}
        return self._operate(operators[name], own, first)

    def _lerp(self, start: Linear | None, end: Linear | None, weight: Linear | None) -> Linear | None:
        gap = self._operate(ast.Sub(), end, start)
        return self._operate(ast.Add(), start, self._operate(ast.Mult(), gap, weight))

    def _inlined(self, call: ast.Call, depth: int) -> Linear | None:
        """The result of a function of the file that only computes it."""
        called = names.function(call.func, self._known) if depth > 0 else None
        body = called.node.body if called is not None and not isinstance(called.node, ast.Lambda) else []
        returned = body[-1].value if body and isinstance(body[-1], ast.Return) else None
        plain = all(isinstance(item, ast.If) or _is_text(item) for item in body[:-1]) if body else False
        if called is None or returned is None or not plain:
            return None
        parameters = called.parameters[1:] if called.is_method else called.parameters
        given = dict(zip(parameters, (self.form(item, depth) for item in call.args), strict=False))
        inner = copy.copy(self)
        inner.env, inner._aliases, inner.changed = dict(given), {}, {}
        return inner.form(returned, depth - 1)

    @staticmethod
    def _operate(op: ast.operator, left: Linear | None, right: Linear | None) -> Linear | None:
        if left is None or right is None:
            return None
        if isinstance(op, (ast.Add, ast.Sub)):
            sign = 1 if isinstance(op, ast.Add) else -1
            total = {key: left.get(key, 0) + sign * right.get(key, Fraction(0)) for key in {**left, **right}}
            return {key: share for key, share in total.items() if share}
        if isinstance(op, ast.Mult):
            if left.keys() <= {_ONE}:
                return _times(right, left.get(_ONE, Fraction(0)))
            return _times(left, right.get(_ONE, Fraction(0))) if right.keys() <= {_ONE} else None
        if isinstance(op, ast.Div) and right.keys() == {_ONE}:
            return _times(left, 1 / right[_ONE])
        return None


def _times(form: Linear | None, factor: Fraction) -> Linear | None:
    return None if form is None else {key: share * factor for key, share in form.items() if share * factor}


def _copies(node: ast.expr) -> bool:
    """Whether an expression creates a new tensor: `p.clone()`."""
    return any(isinstance(item, ast.Attribute) and item.attr == "clone" for item in python_ast.walk(node))


def _root(node: ast.expr) -> ast.expr:
    """The tensor whose numbers an expression has."""
    while True:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _returns_owner(node.func.attr):
            node = node.func.value
        elif isinstance(node, ast.Attribute) and node.attr in _SAME:
            node = node.value
        else:
            return node


def _returns_owner(method: str) -> bool:
    """Whether a method returns the tensor itself, or one with the same numbers."""
    return method in _SAME or (method.endswith("_") and method.rstrip("_") in _OPERATIONS)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
