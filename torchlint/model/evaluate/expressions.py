"""Expressions -> values, with the events that evaluating them causes."""

from __future__ import annotations

import ast
from collections.abc import Callable

from torchlint.model.evaluate.loops import few_in
from torchlint.model.evaluate.part import Part
from torchlint.model.evaluate.tensors import operator_of, overloads
from torchlint.model.events import Branch, Loop, Read, Yield
from torchlint.model.values import (
    CallResult,
    Container,
    Dict,
    Function,
    Generator,
    List,
    Plain,
    SentValue,
    Set,
    Tuple,
    UnsupportedExpression,
    Value,
    resolved,
)
from torchlint.pytorch.api import PLAIN_ATTRIBUTES, PLAIN_METHODS
from torchlint.syntax.python_ast import site_of, walk

_CONTAINERS: dict[type[ast.AST], type[Container]] = {
    ast.Tuple: Tuple, ast.List: List, ast.Set: Set,
    ast.ListComp: List, ast.SetComp: Set, ast.DictComp: Dict, ast.GeneratorExp: Generator,
}  # fmt: skip
_MAKING = frozenset({ast.Constant, ast.UnaryOp, ast.BinOp, ast.Call, ast.Compare, ast.JoinedStr})
"""Expressions that make a number or a text, rather than read one."""
_LITERALS = (str, bytes, int, float, bool, type(None))


class Expressions(Part):
    """Evaluates expressions, each kind by the part that knows it."""

    def prepare(self) -> None:
        self._handlers: dict[type[ast.AST], Callable[..., Value]] = {
            ast.Name: self._name, ast.Attribute: self.attributes.evaluate, ast.Subscript: self.elements.evaluate,
            ast.Call: self.calls.evaluate, ast.Constant: self._constant, ast.JoinedStr: self._formatted,
            ast.BinOp: self._binary, ast.UnaryOp: self._unary, ast.Compare: self._comparison,
            ast.BoolOp: self._boolean, ast.IfExp: self._if_expression,
            ast.Tuple: self._display, ast.List: self._display, ast.Set: self._display, ast.Dict: self._dict,
            ast.ListComp: self._comprehension, ast.SetComp: self._comprehension,
            ast.GeneratorExp: self._comprehension, ast.DictComp: self._comprehension,
            ast.Lambda: self._lambda, ast.NamedExpr: self._named, ast.Await: self._await,
            ast.Yield: self._yield, ast.YieldFrom: self._yield, ast.Starred: self._starred,
        }  # fmt: skip

    def value(self, node: ast.expr) -> Value:
        """The value of an expression at this point of the program."""
        evaluate = self._handlers.get(type(node))
        if evaluate is None:
            return self._opaque(node)
        found = evaluate(node)
        is_new = isinstance(found, Plain) and not found.order and type(node) in _MAKING
        return self.state.stamp(found) if is_new else found

    def _constant(self, node: ast.Constant) -> Value:
        return Plain(node, node.value) if isinstance(node.value, _LITERALS) else Plain(node)

    def _formatted(self, node: ast.JoinedStr) -> Value:
        for part in walk(node):
            if isinstance(part, ast.FormattedValue):
                self.value(part.value)
        return Plain(node)

    def _opaque(self, node: ast.expr) -> Value:
        return self.state.stamp(UnsupportedExpression(node))

    def _name(self, node: ast.Name) -> Value:
        name = node.id
        found = self.names.lookup(name, node)
        if found in self.observations.mutated and not self._reads_layout(node):
            self.state.emit(Read(site_of(node), found, name))
        return found

    def _reads_layout(self, node: ast.Name) -> bool:
        """`x.shape`, `x.size()`: nothing of the values of x."""
        parent = self.definitions.tree.parent(node)
        return isinstance(parent, ast.Attribute) and parent.attr in PLAIN_ATTRIBUTES | PLAIN_METHODS

    def _binary(self, node: ast.BinOp) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(node.op, ast.Mod) and _is_text(left, node.left):
            return Plain(node)
        return self.tensors.operate(operator_of(node.op), left, right, node)

    def _unary(self, node: ast.UnaryOp) -> Value:
        operand = self.value(node.operand)
        if isinstance(node.op, ast.Not) or isinstance(operand, Plain):
            if (
                isinstance(node.op, ast.USub)
                and isinstance(operand, Plain)
                and isinstance(operand.constant, (int, float))
            ):
                return Plain(node, -operand.constant)
            return Plain(node)
        return self.tensors.make("neg" if isinstance(node.op, ast.USub) else "bitwise", (operand,), node)

    def _comparison(self, node: ast.Compare) -> Value:
        operands = [self.value(node.left), *map(self.value, node.comparators)]
        same = self.conditions.is_the_same(node)
        if same is not None:
            return Plain(node, same)
        if all(isinstance(item, Plain) for item in operands):
            return Plain(node)
        if any(overloads(item, "eq") for item in operands):
            return self.state.stamp(CallResult(node, tuple(operands), "", None, self.state.mode))
        return self.tensors.make("compare", tuple(operands), node)

    def _boolean(self, node: ast.BoolOp) -> Value:
        state, found = self.state, self.value(node.values[0])
        for item in node.values[1:]:
            branch = Branch(site_of(node), [[], []])
            with state.arm(branch, 0):
                value = self.value(item)
            state.add(branch)
            found = state.phi(node, [found, value])
        return found

    def _if_expression(self, node: ast.IfExp) -> Value:
        self.value(node.test)
        taken = self.conditions.decided(node)
        if taken is not None:
            return self.value(taken)
        state, branch = self.state, Branch(site_of(node), [[], []])
        values: list[Value] = []
        for number, arm in enumerate((node.body, node.orelse)):
            with state.arm(branch, number):
                values.append(self.value(arm))
        state.add(branch)
        return state.phi(node, values, [(branch, number) for number in range(len(values))])

    def _display(self, node: ast.Tuple | ast.List | ast.Set) -> Value:
        values: list[Value] = []
        is_open = False
        for element in node.elts:
            if isinstance(element, ast.Starred):
                several = resolved(self.value(element.value))
                values.extend(self.elements.unpack(several, node))
                is_open |= not isinstance(several, Container) or several.is_open
            else:
                values.append(self.value(element))
        made = self.state.stamp(_CONTAINERS[type(node)](node, tuple(values)))
        made.is_open = made.unsure = is_open
        made.branches = len(self.state.position.path)
        return made

    def _dict(self, node: ast.Dict) -> Value:
        made = self.state.stamp(Dict(node))
        made.branches = len(self.state.position.path)
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            value = self.value(value_node)
            key = self.value(key_node) if key_node is not None else None
            copied = resolved(value) if key is None else None
            if isinstance(key, Plain) and isinstance(key.constant, (str, int)):
                made.set_part(key.constant, value)
            elif isinstance(copied, Dict) and not copied.parents:
                made.set_parts(copied.entries)
            else:
                made.add(value)
        return made

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
        state, names = self.state, dict(self.state.frame.locals)
        first = self.value(node.generators[0].iter)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)) and (options := self._for_each_option(node, first)):
            return state.stamp(List(node, tuple(options)))
        loop = Loop(site_of(node), [], depth=len(state.position.calls))
        with state.loop(loop):
            for number, generator in enumerate(node.generators):
                element = self.elements.iterate(self.value(generator.iter) if number else first, generator)
                element = self.elements.some_of(element, generator) if generator.ifs else element
                self.assignments.assign_target(generator.target, element)
                for condition in generator.ifs:
                    self.value(condition)
            if isinstance(node, ast.DictComp):
                self.value(node.key)
            value = self.value(node.value if isinstance(node, ast.DictComp) else node.elt)
        state.frame.locals = names
        state.add(loop)
        return state.stamp(_CONTAINERS[type(node)](node, (value,)))

    def _for_each_option(self, node: ast.ListComp | ast.GeneratorExp, options: Value) -> list[Value]:
        """What is made for each of a few texts or dictionaries: `[build(name) for name in ("clip", "log")]`.

        For each of a few of anything, where each gets a name: `a, b = (SGD(net.parameters()) for net in (one, two))`.
        """
        items = few_in(options) if len(node.generators) == 1 and not node.generators[0].ifs else []
        parent = self.definitions.tree.parent(node)
        is_named = isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Tuple)
        is_list = isinstance(node, ast.ListComp) and all(map(_is_option, items))
        names, made = dict(self.state.frame.locals), []
        for item in items if is_named or is_list else ():
            self.assignments.assign_target(node.generators[0].target, item)
            made.append(self.value(node.elt))
        self.state.frame.locals = names
        return made

    def _lambda(self, node: ast.Lambda) -> Value:
        return self.state.stamp(Function(self.definitions.functions[node], self.state.frame))

    def _named(self, node: ast.NamedExpr) -> Value:
        value = self.value(node.value)
        self.assignments.assign_target(node.target, value)
        return value

    def _await(self, node: ast.Await) -> Value:
        return self.value(node.value)

    def _yield(self, node: ast.Yield | ast.YieldFrom) -> Value:
        given = self.value(node.value) if node.value is not None else Plain(node, None)
        if node.value is not None:
            self.state.frame.returns.append(given)
        self.state.frame.yields.append((self.state.mode, site_of(node)))
        if self.state.frame.block is not None:
            self.state.frame.block(given)
        function = self.state.frame.info
        if function is None or not function.has_decorator("contextmanager"):
            self.state.emit(Yield(site_of(node)))
        return self.state.stamp(SentValue(node))

    def _starred(self, node: ast.Starred) -> Value:
        return self.elements.iterate(self.value(node.value), node)


def _is_text(value: Value, node: ast.expr | None = None) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(value, Plain) and isinstance(value.constant, str))


def _is_option(item: Value) -> bool:
    """Whether a value says what is to be made: a text, or a dictionary."""
    return _is_text(item) or isinstance(item, Dict)
