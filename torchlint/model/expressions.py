"""Expressions -> values, with the events that evaluating them causes."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import libcst as cst

from torchlint import hints
from torchlint.knowledge import PLAIN_ATTRIBUTES, PLAIN_METHODS, WITH_INDICES
from torchlint.model.definitions import dotted
from torchlint.model.events import Branch, Compute, GradRead, Loop, Read, Yield
from torchlint.model.machine import Machine
from torchlint.model.values import (
    Container,
    External,
    Function,
    Instance,
    Module,
    Optimizer,
    Parameters,
    Phi,
    Plain,
    Tensor,
    Unknown,
    Value,
    inputs_of,
    resolved,
)
from torchlint.python import UNREADABLE, string_value
from torchlint.syntax import children

_OPERATORS: dict[type[cst.CSTNode], str] = {
    cst.Add: "add", cst.Subtract: "sub", cst.Multiply: "mul", cst.Divide: "div", cst.MatrixMultiply: "matmul",
    cst.Power: "pow", cst.Modulo: "remainder", cst.FloorDivide: "floor_divide",
    cst.AddAssign: "add", cst.SubtractAssign: "sub", cst.MultiplyAssign: "mul", cst.DivideAssign: "div",
    cst.MatrixMultiplyAssign: "matmul", cst.PowerAssign: "pow", cst.ModuloAssign: "remainder",
    cst.FloorDivideAssign: "floor_divide",
}  # fmt: skip


def operator_of(node: cst.CSTNode) -> str:
    """The tensor operator of a binary or augmented operator; bitwise ones carry no graph."""
    return _OPERATORS.get(type(node), "bitwise")


def key_of(index: Value | None) -> object:
    """The literal number or text that an index is, else None."""
    return index.constant if isinstance(index, Plain) and isinstance(index.constant, (str, int)) else None


class Expressions(Machine):
    """Evaluates expressions; calls are left to a subclass."""

    mutated: set[Value]

    def value(self, node: cst.BaseExpression) -> Value:
        """The value of an expression at this point of the program."""
        evaluate = self._evaluators.get(type(node))
        if evaluate is None:
            return self._opaque(node)
        return evaluate(self, node)

    def call(self, node: cst.Call) -> Value:
        """The value of a call."""
        raise NotImplementedError

    # -- leaves -------------------------------------------------------------------------------------

    def _string(self, node: cst.SimpleString) -> Value:
        try:
            return Plain(node, string_value(node.value))
        except UNREADABLE:
            return Plain(node)

    def _concatenated(self, node: cst.ConcatenatedString) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        assert isinstance(left, Plain) and isinstance(right, Plain), "a literal"
        if isinstance(left.constant, str) and isinstance(right.constant, str):
            return Plain(node, left.constant + right.constant)
        return Plain(node)

    def _number(self, node: cst.Integer | cst.Float) -> Value:
        number = node.value.replace("_", "")
        try:
            return Plain(node, int(number, 0) if isinstance(node, cst.Integer) else float(number))
        except ValueError:  # more digits than Python converts
            return Plain(node)

    def _plain(self, node: cst.BaseExpression) -> Value:
        for child in children(node):
            if isinstance(child, cst.BaseExpression):
                self.value(child)
            else:
                for inner in children(child):
                    if isinstance(inner, cst.BaseExpression):
                        self.value(inner)
        return Plain(node)

    def _opaque(self, node: cst.BaseExpression) -> Value:
        return self.made(Unknown(node, "expression"))

    _CONSTANTS: ClassVar[dict[str, object]] = {"None": None, "True": True, "False": False}

    def _name(self, node: cst.Name) -> Value:
        name = node.value
        if name in self._CONSTANTS:
            return Plain(node, self._CONSTANTS[name])
        found = self.lookup(name, node)
        if found in self.mutated and not self._reads_layout(node):
            self.emit(Read(node, found, name))
        return found

    def _reads_layout(self, node: cst.Name) -> bool:
        """`x.shape`, `x.size()`: nothing of the values of x."""
        parent = self.definitions.tree.parent(node)
        return isinstance(parent, cst.Attribute) and parent.attr.value in PLAIN_ATTRIBUTES | PLAIN_METHODS

    # -- parts --------------------------------------------------------------------------------------

    def _attribute(self, node: cst.Attribute) -> Value:
        owner = self.value(node.value)
        return self.attribute_of(owner, node.attr.value, node)

    def attribute_of(self, owner: Value, name: str, node: cst.CSTNode) -> Value:
        """What reading an attribute gives, tensors' own attributes understood."""
        owner = resolved(owner)
        if name == "grad":
            self.emit(GradRead(node))
            return self.part_of(owner, "grad", "grad", node)
        if name == "data" and not isinstance(owner, (Container, Instance, External)):
            return self.made(Tensor(node, "data", (owner,), self.mode, base=owner))
        if isinstance(owner, Tensor):
            if name in PLAIN_ATTRIBUTES:
                return Plain(node)
            if name in ("T", "mT", "H", "real", "imag"):
                return self.made(Tensor(node, "t", (owner,), self.mode, base=owner))
            if owner.op == "module":
                return self._component(owner, name, node)
        if isinstance(owner, Optimizer) or name == "param_groups":
            owner.used_as(name)
            return self.part_of(owner, name, "attribute", node)
        if isinstance(owner, Module) and owner.info is None and name.startswith(("weight", "bias")):
            return self._leaf_parameter(owner, name, node)
        if name in ("shape", "ndim", "device", "dtype"):
            return Plain(node)
        return self.attribute(owner, name, node)

    def _leaf_parameter(self, owner: Value, name: str, node: cst.CSTNode) -> Value:
        known = self.heap.get((owner, name)) or self.stored.get((owner, name)) or owner.part(name)
        if known is None:
            known = Tensor(node, "parameter", (owner,), leaf=True)
            known.order, known.loops = owner.order, owner.loops
            owner.set_part(name, known)
        return known

    def _component(self, owner: Tensor, key: object, node: cst.CSTNode) -> Value:
        """A field or element of what a module returned."""
        known = owner.part(key)
        if known is None:
            known = Tensor(node, "component", (owner,), owner.mode)
            known.order, known.loops = owner.order, owner.loops
            if isinstance(key, str):
                known.label = key
            owner.set_part(key, known)
        return known

    def _subscript(self, node: cst.Subscript) -> Value:
        owner = resolved(self.value(node.value))
        index = self.index(node)
        if isinstance(owner, Module) and any(isinstance(item.slice, cst.Slice) for item in node.slice):
            return self.made(Module(node, owner.name, owner.parents, owner.info))
        stored = self.stored_at(owner, index)
        return stored if stored is not None else self.element(owner, key_of(index), node, basic=self.is_basic(node))

    def index(self, node: cst.Subscript) -> Value | None:
        """What stands in the brackets, unless that is a slice or several indices; evaluates them all."""
        found: list[Value] = []
        for element in node.slice:
            if isinstance(element.slice, cst.Index):
                found.append(self.value(element.slice.value))
            else:
                for child in children(element.slice):
                    if isinstance(child, cst.BaseExpression):
                        self.value(child)
        return found[0] if len(found) == len(node.slice) == 1 else None

    def is_basic(self, node: cst.Subscript) -> bool:
        """Whether indexing gives a view: slices and literal numbers, no masks and index tensors."""
        return all(
            not isinstance(item.slice, cst.Index)
            or isinstance(item.slice.value, (cst.Integer, cst.Ellipsis, cst.UnaryOperation))
            for item in node.slice
        )

    def element(self, owner: Value, key: object, node: cst.CSTNode, *, basic: bool = False) -> Value:
        """An element by key (None: any) of a container, tensor or unknown."""
        if isinstance(owner, Container):
            return self._container_element(owner, key, node)
        stored = self.heap.get((owner, f"[{key!r}]"))
        if stored is not None:
            return stored
        if isinstance(owner, Tensor):
            if owner.op == "module" and key is not None:
                return self._component(owner, key, node)
            if owner.op in WITH_INDICES and key == 1:
                return self.made(Tensor(node, "argmax", (owner,), self.mode))
            return self.made(Tensor(node, "getitem", (owner,), self.mode, base=owner if basic else None))
        if isinstance(owner, Plain):
            return Plain(node)
        if isinstance(owner, Parameters):
            return self._parameter(owner, node)
        if isinstance(owner, Module) and owner.info is None:
            return self._submodule(owner, key, node)
        if isinstance(owner, Phi):
            inputs = [item for item in inputs_of(owner) if isinstance(item, (Container, Tensor))]
            if len(inputs) == 1 and not owner.is_loop:
                return self.element(inputs[0], key, node, basic=basic)
        return self.part_of(owner, f"[{key!r}]", "element", node)

    def _submodule(self, owner: Module, key: object, node: cst.CSTNode) -> Value:
        """An element of a `Sequential` or `ModuleList`: one of its modules."""
        inside = [
            item for part in owner.parents for item in (part.elements() if isinstance(part, Container) else [part])
        ]
        modules = [item for item in inside if isinstance(resolved(item), (Module, Unknown))]
        if isinstance(key, int) and -len(inside) <= key < len(inside):
            return inside[key]
        if modules:
            return self.phi(node, modules)
        return self.part_of(owner, "[]", "element", node)

    def _parameter(self, owner: Value, node: cst.CSTNode) -> Value:
        known = owner.part("[]")
        if known is None:
            known = Tensor(node, "parameter", owner.parents, leaf=True)
            known.order, known.loops = owner.order, owner.loops
            owner.set_part("[]", known)
        return known

    def _container_element(self, owner: Container, key: object, node: cst.CSTNode) -> Value:
        if isinstance(key, int) and owner.kind in ("list", "tuple") and not owner.known_parts:
            if -len(owner.parents) <= key < len(owner.parents):
                return owner.parents[key]
        known = (owner.part(key) or owner.part(f"[{key!r}]")) if key is not None else None
        if known is not None:
            return known
        elements = owner.elements()
        if len(elements) == 1 and owner.kind in ("list", "tuple", "set", "generator"):
            return elements[0] if not owner.grown else self._drawn(owner, elements[0])
        if not elements:
            return self.part_of(owner, f"[{key!r}]", "element", node)
        whole = owner.part("[]")
        if not isinstance(whole, Phi) or whole.parents != tuple(elements):
            whole = self.made(Phi(node, tuple(elements)))
            whole.source = owner
            owner.set_part("[]", whole)
        return whole

    def _drawn(self, owner: Container, element: Value) -> Value:
        """An element of a list that grows: the same one, perhaps of an earlier iteration."""
        known = owner.part("[]")
        if not isinstance(known, Phi) or known.parents != (element,):
            known = Phi(element.node, (element,))
            known.order, known.loops, known.label, known.source = element.order, element.loops, element.label, owner
            owner.set_part("[]", known)
        return known

    def iterated(self, owner: Value, node: cst.CSTNode) -> Value:
        """What one iteration over a value yields."""
        owner = resolved(owner)
        if isinstance(owner, (Parameters, Container, Module)):
            return self.element(owner, None, node)
        if isinstance(owner, Tensor):
            return self.made(Tensor(node, "unbind", (owner,), self.mode, base=owner))
        if isinstance(owner, Plain):
            return Plain(node)
        if isinstance(owner, Unknown) and owner.origin == "call" and owner.callee is not None:
            if hints.is_called_as_module(owner.callee.label):
                return self.part_of(owner, "[]", "element", node)
        return self.made(Unknown(node, "iteration", (owner,)))

    # -- operators ----------------------------------------------------------------------------------

    def _binary(self, node: cst.BinaryOperation) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        return self.operate(operator_of(node.operator), left, right, node)

    def operate(self, op: str, left: Value, right: Value, node: cst.CSTNode) -> Value:
        """The result of a binary operator; of two numbers a number, of two lists a list."""
        if isinstance(left, Plain) and isinstance(right, Plain):
            return Plain(node)
        containers = [item for item in (left, right) if isinstance(item, Container)]
        if containers and op in ("add", "mul"):
            inside = tuple(value for item in containers for value in item.elements())
            return self.made(Container(node, containers[0].kind, inside))
        result = self.made_tensor(op, (left, right), node)
        if op in ("mul", "div", "pow", "matmul"):
            self.emit(Compute(node, result))
        return result

    def made_tensor(self, op: str, parents: tuple[Value, ...], node: cst.CSTNode, base: Value | None = None) -> Tensor:
        """The result of a tensor operator in the current grad mode."""
        return self.made(Tensor(node, op, parents, self.mode, base=base))

    def _unary(self, node: cst.UnaryOperation) -> Value:
        operand = self.value(node.expression)
        if isinstance(node.operator, cst.Not) or isinstance(operand, Plain):
            if (
                isinstance(node.operator, cst.Minus)
                and isinstance(operand, Plain)
                and isinstance(operand.constant, (int, float))
            ):
                return Plain(node, -operand.constant)
            return Plain(node)
        return self.made_tensor("neg" if isinstance(node.operator, cst.Minus) else "bitwise", (operand,), node)

    def _comparison(self, node: cst.Comparison) -> Value:
        operands = [self.value(node.left), *(self.value(item.comparator) for item in node.comparisons)]
        if all(isinstance(item, Plain) for item in operands):
            return Plain(node)
        return self.made_tensor("compare", tuple(operands), node)

    def _boolean(self, node: cst.BooleanOperation) -> Value:
        left = self.value(node.left)
        branch, path, outer = Branch(node, [[], []]), self.path, self.items
        self.items, self.path = branch.arms[0], (*path, (branch, 0))
        right = self.value(node.right)
        self.items, self.path = outer, path
        if branch.arms[0]:
            self.items.append(branch)
        return self.phi(node, [left, right])

    def _if_expression(self, node: cst.IfExp) -> Value:
        self.value(node.test)
        branch, path, outer = Branch(node, []), self.path, self.items
        values: list[Value] = []
        for number, arm in enumerate((node.body, node.orelse)):
            self.items, self.path = [], (*path, (branch, number))
            values.append(self.value(arm))
            branch.arms.append(self.items)
        self.items, self.path = outer, path
        if any(branch.arms):
            self.items.append(branch)
        return self.phi(node, values, [(branch, number) for number in range(len(values))])

    # -- displays and comprehensions ----------------------------------------------------------------

    def _display(self, node: cst.Tuple | cst.List | cst.Set) -> Value:
        kind = type(node).__name__.lower()
        values: list[Value] = []
        for element in node.elements:
            value = self.value(element.value)
            if isinstance(element, cst.StarredElement):
                inner = resolved(value)
                values.extend(inner.elements() if isinstance(inner, Container) else [self.iterated(inner, node)])
            else:
                values.append(value)
        return self.made(Container(node, kind, tuple(values)))

    def _dict(self, node: cst.Dict) -> Value:
        made = self.made(Container(node, "dict"))
        for element in node.elements:
            value = self.value(element.value)
            if isinstance(element, cst.DictElement):
                key = self.value(element.key)
                if isinstance(key, Plain) and isinstance(key.constant, (str, int)):
                    made.set_part(key.constant, value)
                    continue
            made.add(value)
        return made

    def _comprehension(self, node: cst.ListComp | cst.SetComp | cst.GeneratorExp | cst.DictComp) -> Value:
        outer, items = dict(self.frame.locals), self.items
        loop = Loop(node, [], depth=len(self.calls))
        self.loops, self.items = (*self.loops, loop), loop.body
        self._comp_for(node.for_in)
        if isinstance(node, cst.DictComp):
            self.value(node.key)
            value = self.value(node.value)
        else:
            value = self.value(node.elt)
        self.frame.locals = outer
        self.loops, self.items = self.loops[:-1], items
        if loop.body:
            self.items.append(loop)
        kind = {cst.ListComp: "list", cst.SetComp: "set", cst.DictComp: "dict"}.get(type(node), "generator")
        return self.made(Container(node, kind, (value,)))

    def _comp_for(self, node: cst.CompFor) -> None:
        self.assign_target(node.target, self.iterated(self.value(node.iter), node))
        for condition in node.ifs:
            self.value(condition.test)
        if node.inner_for_in is not None:
            self._comp_for(node.inner_for_in)

    def assign_target(self, target: cst.BaseExpression, value: Value) -> None:
        """Bind a target to a value."""
        raise NotImplementedError

    def _lambda(self, node: cst.Lambda) -> Value:
        return self.made(Function(self.definitions.functions[node], self.frame))

    def _named(self, node: cst.NamedExpr) -> Value:
        value = self.value(node.value)
        self.assign_target(node.target, value)
        return value

    def _await(self, node: cst.Await) -> Value:
        return self.value(node.expression)

    def _yield(self, node: cst.Yield) -> Value:
        inner = node.value.item if isinstance(node.value, cst.From) else node.value
        if inner is not None:
            self.frame.returns.append(self.value(inner))
        if self.frame.info is None or not self.frame.info.has_decorator("contextmanager"):
            self.emit(Yield(node))
        return self.made(Unknown(node, "sent"))

    def _starred(self, node: cst.StarredElement) -> Value:
        return self.iterated(self.value(node.value), node)

    _evaluators: ClassVar[dict[type[cst.CSTNode], Callable[..., Value]]] = {
        cst.Name: _name, cst.Attribute: _attribute, cst.Subscript: _subscript,
        cst.Call: lambda self, node: self.call(node),
        cst.Integer: _number, cst.Float: _number, cst.SimpleString: _string, cst.Imaginary: _plain,
        cst.ConcatenatedString: _concatenated, cst.FormattedString: _plain, cst.Ellipsis: _plain,
        cst.BinaryOperation: _binary, cst.UnaryOperation: _unary, cst.Comparison: _comparison,
        cst.BooleanOperation: _boolean, cst.IfExp: _if_expression,
        cst.Tuple: _display, cst.List: _display, cst.Set: _display, cst.Dict: _dict,
        cst.ListComp: _comprehension, cst.SetComp: _comprehension, cst.GeneratorExp: _comprehension,
        cst.DictComp: _comprehension, cst.Lambda: _lambda, cst.NamedExpr: _named, cst.Await: _await,
        cst.Yield: _yield, cst.StarredElement: _starred,
    }  # fmt: skip


def target_text(node: cst.BaseExpression) -> str:
    """The dotted text of an assignment target, or an empty string."""
    return dotted(node) if isinstance(node, (cst.Name, cst.Attribute)) else ""
