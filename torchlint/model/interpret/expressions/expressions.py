"""The middle layer of the interpreter: expressions -> values, with the events of their evaluation."""

from __future__ import annotations

import ast
from collections.abc import Callable

from torchlint.model.cases import Case
from torchlint.model.events import Branch, Read, Yield
from torchlint.model.imports import Imports
from torchlint.model.interpret.expressions.callees import Callees
from torchlint.model.interpret.expressions.calls import Calls
from torchlint.model.interpret.expressions.comprehensions import Comprehensions
from torchlint.model.interpret.expressions.conditions import Conditions
from torchlint.model.interpret.expressions.names import Names
from torchlint.model.interpret.expressions.subscripts import Subscripts
from torchlint.model.interpret.expressions.sums import Sums
from torchlint.model.interpret.expressions.targets import Targets
from torchlint.model.interpret.expressions.updates import Updates
from torchlint.model.interpret.machine import Machine, Part
from torchlint.model.interpret.transfer.tensors import operator_of, overloads
from torchlint.model.interpret.transfer.transfer import Transfer
from torchlint.model.values import (
    CallResult,
    Container,
    Dict,
    Function,
    List,
    Plain,
    SentValue,
    Set,
    Tuple,
    Value,
    resolved,
)
from torchlint.pytorch.api import PLAIN_ATTRIBUTES, PLAIN_METHODS
from torchlint.syntax.python_ast import site_of, walk

_CONTAINERS: dict[type[ast.AST], type[Container]] = {ast.Tuple: Tuple, ast.List: List, ast.Set: Set}
_LITERALS = (str, bytes, int, float, bool, type(None))


class Expressions(Part):
    """The parts of the layer in the order of their dependencies, and the expressions that need no part of their own."""

    def __init__(self, machine: Machine, transfer: Transfer, imports: Imports | None, case: Case | None) -> None:
        super().__init__(machine)
        self.tensors = transfer.tensors
        self.attributes = transfer.attributes
        self.elements = transfer.elements
        self.names = Names(machine, self.attributes, imports)
        self.conditions = Conditions(machine, self.attributes, self.names, case)
        self.subscripts = Subscripts(machine, self.elements)
        self.sums = Sums(machine, self.elements, self.subscripts)
        self.updates = Updates(machine, self.tensors, self.subscripts, self.sums)
        self.targets = Targets(machine, transfer, self.subscripts, self.updates)
        self.callees = Callees(machine, transfer)
        self.calls = Calls(machine, transfer, self.callees)
        self.comprehensions = Comprehensions(machine, self.elements)

    def evaluators(self) -> dict[type[ast.AST], Callable[..., Value]]:
        """The method that evaluates each kind of expression."""
        return {
            ast.Name: self._name, ast.Attribute: self._attribute, ast.Subscript: self.subscripts.evaluate,
            ast.Call: self.calls.evaluate, ast.Constant: self._constant, ast.JoinedStr: self._formatted,
            ast.BinOp: self._binary, ast.UnaryOp: self._unary, ast.Compare: self._comparison,
            ast.BoolOp: self._boolean, ast.IfExp: self._if_expression,
            ast.Tuple: self._display, ast.List: self._display, ast.Set: self._display, ast.Dict: self._dict,
            **self.comprehensions.evaluators(),
            ast.Lambda: self._lambda, ast.NamedExpr: self._named, ast.Await: self._await,
            ast.Yield: self._yield, ast.YieldFrom: self._yield, ast.Starred: self._starred,
        }  # fmt: skip

    def _constant(self, node: ast.Constant) -> Value:
        return Plain(node, node.value) if isinstance(node.value, _LITERALS) else Plain(node)

    def _formatted(self, node: ast.JoinedStr) -> Value:
        for part in walk(node):
            if isinstance(part, ast.FormattedValue):
                self.machine.value(part.value)
        return Plain(node)

    def _attribute(self, node: ast.Attribute) -> Value:
        return self.attributes.read(self.machine.value(node.value), node.attr, node)

    def _name(self, node: ast.Name) -> Value:
        name = node.id
        found = self.names.lookup(name, node)
        if found in self.state.observations.mutated and not self._reads_layout(node):
            self.state.emit(Read(site_of(node), found, name))
        return found

    def _reads_layout(self, node: ast.Name) -> bool:
        """`x.shape`, `x.size()`: a read that does not use the values of x."""
        parent = self.definitions.tree.parent(node)
        return isinstance(parent, ast.Attribute) and parent.attr in PLAIN_ATTRIBUTES | PLAIN_METHODS

    def _binary(self, node: ast.BinOp) -> Value:
        left, right = self.machine.value(node.left), self.machine.value(node.right)
        if isinstance(node.op, ast.Mod) and _is_text(left, node.left):
            return Plain(node)
        return self.tensors.operate(operator_of(node.op), left, right, node)

    def _unary(self, node: ast.UnaryOp) -> Value:
        operand = self.machine.value(node.operand)
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
        operands = [self.machine.value(node.left), *map(self.machine.value, node.comparators)]
        same = self.conditions.is_the_same(node)
        if same is not None:
            return Plain(node, same)
        if all(isinstance(item, Plain) for item in operands):
            return Plain(node)
        if any(overloads(item, "eq") for item in operands):
            return self.state.stamp(CallResult(node, tuple(operands), "", None, self.state.mode))
        return self.tensors.make("compare", tuple(operands), node)

    def _boolean(self, node: ast.BoolOp) -> Value:
        state, found = self.state, self.machine.value(node.values[0])
        for item in node.values[1:]:
            branch = Branch(site_of(node), [[], []])
            with state.arm(branch, 0):
                value = self.machine.value(item)
            state.add(branch)
            found = state.phi(node, [found, value])
        return found

    def _if_expression(self, node: ast.IfExp) -> Value:
        self.machine.value(node.test)
        taken = self.conditions.decided(node)
        if taken is not None:
            return self.machine.value(taken)
        state, branch = self.state, Branch(site_of(node), [[], []])
        values: list[Value] = []
        for number, arm in enumerate((node.body, node.orelse)):
            with state.arm(branch, number):
                values.append(self.machine.value(arm))
        state.add(branch)
        return state.phi(node, values, [(branch, number) for number in range(len(values))])

    def _display(self, node: ast.Tuple | ast.List | ast.Set) -> Value:
        values: list[Value] = []
        is_open = False
        for element in node.elts:
            if isinstance(element, ast.Starred):
                several = resolved(self.machine.value(element.value))
                values.extend(self.elements.unpack(several, node))
                is_open |= not isinstance(several, Container) or several.is_open
            else:
                values.append(self.machine.value(element))
        made = self.state.stamp(_CONTAINERS[type(node)](node, tuple(values)))
        made.is_open = made.unsure = is_open
        made.branches = len(self.state.position.path)
        return made

    def _dict(self, node: ast.Dict) -> Value:
        made = self.state.stamp(Dict(node))
        made.branches = len(self.state.position.path)
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            value = self.machine.value(value_node)
            key = self.machine.value(key_node) if key_node is not None else None
            copied = resolved(value) if key is None else None
            if isinstance(key, Plain) and isinstance(key.constant, (str, int)):
                made.set_part(key.constant, value)
            elif isinstance(copied, Dict) and not copied.parents:
                made.set_parts(copied.entries)
            else:
                made.add(value)
        return made

    def _lambda(self, node: ast.Lambda) -> Value:
        return self.state.stamp(Function(self.definitions.functions[node], self.state.frame))

    def _named(self, node: ast.NamedExpr) -> Value:
        value = self.machine.value(node.value)
        self.machine.write(node.target, value)
        return value

    def _await(self, node: ast.Await) -> Value:
        return self.machine.value(node.value)

    def _yield(self, node: ast.Yield | ast.YieldFrom) -> Value:
        given = self.machine.value(node.value) if node.value is not None else Plain(node, None)
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
        return self.elements.iterate(self.machine.value(node.value), node)


def _is_text(value: Value, node: ast.expr | None = None) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(value, Plain) and isinstance(value.constant, str))
