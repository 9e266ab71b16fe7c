"""Expressions -> values, with the events that evaluating them causes."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import ClassVar

from torchlint import hints
from torchlint.knowledge import PLAIN_ATTRIBUTES, PLAIN_METHODS, WITH_INDICES
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
from torchlint.pythontree import dotted, site_of, walk

_LITERALS = (str, bytes, int, float, bool, type(None))
_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.MatMult: "matmul", ast.Pow: "pow",
    ast.Mod: "remainder", ast.FloorDiv: "floor_divide",
}  # fmt: skip


def operator_of(node: ast.AST) -> str:
    """The tensor operator of a binary or augmented operator; bitwise ones carry no graph."""
    return _OPERATORS.get(type(node), "bitwise")


def key_of(index: Value | None) -> object:
    """The literal number or text that an index is, else None."""
    return index.constant if isinstance(index, Plain) and isinstance(index.constant, (str, int)) else None


class Expressions(Machine):
    """Evaluates expressions; calls are left to a subclass."""

    mutated: set[Value]

    def value(self, node: ast.expr) -> Value:
        """The value of an expression at this point of the program."""
        evaluate = self._evaluators.get(type(node))
        if evaluate is None:
            return self._opaque(node)
        return evaluate(self, node)

    def call(self, node: ast.Call) -> Value:
        """The value of a call."""
        raise NotImplementedError

    # -- leaves -------------------------------------------------------------------------------------

    def _constant(self, node: ast.Constant) -> Value:
        return Plain(node, node.value) if isinstance(node.value, _LITERALS) else Plain(node)

    def _formatted(self, node: ast.JoinedStr) -> Value:
        for part in walk(node):
            if isinstance(part, ast.FormattedValue):
                self.value(part.value)
        return Plain(node)

    def _opaque(self, node: ast.expr) -> Value:
        return self.made(Unknown(node, "expression"))

    def _name(self, node: ast.Name) -> Value:
        name = node.id
        found = self.lookup(name, node)
        if found in self.mutated and not self._reads_layout(node):
            self.emit(Read(site_of(node), found, name))
        return found

    def _reads_layout(self, node: ast.Name) -> bool:
        """`x.shape`, `x.size()`: nothing of the values of x."""
        parent = self.definitions.tree.parent(node)
        return isinstance(parent, ast.Attribute) and parent.attr in PLAIN_ATTRIBUTES | PLAIN_METHODS

    # -- parts --------------------------------------------------------------------------------------

    def _attribute(self, node: ast.Attribute) -> Value:
        owner = self.value(node.value)
        return self.attribute_of(owner, node.attr, node)

    def attribute_of(self, owner: Value, name: str, node: ast.AST) -> Value:
        """What reading an attribute gives, tensors' own attributes understood."""
        owner = resolved(owner)
        if name == "grad":
            self.emit(GradRead(site_of(node)))
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

    def _leaf_parameter(self, owner: Value, name: str, node: ast.AST) -> Value:
        known = self.heap.get((owner, name)) or self.stored.get((owner, name)) or owner.part(name)
        if known is None:
            known = Tensor(node, "parameter", (owner,), leaf=True)
            known.order, known.loops = owner.order, owner.loops
            owner.set_part(name, known)
        return known

    def _component(self, owner: Tensor, key: object, node: ast.AST) -> Value:
        """A field or element of what a module returned."""
        known = owner.part(key)
        if known is None:
            known = Tensor(node, "component", (owner,), owner.mode)
            known.order, known.loops = owner.order, owner.loops
            if isinstance(key, str):
                known.label = key
            owner.set_part(key, known)
        return known

    def _subscript(self, node: ast.Subscript) -> Value:
        owner = resolved(self.value(node.value))
        index = self.index(node)
        if isinstance(owner, Module) and any(isinstance(item, ast.Slice) for item in indices_of(node)):
            return self.made(Module(node, owner.name, owner.parents, owner.info))
        stored = self.stored_at(owner, index)
        return stored if stored is not None else self.element(owner, key_of(index), node, basic=self.is_basic(node))

    def index(self, node: ast.Subscript) -> Value | None:
        """What stands in the brackets, unless that is a slice or several indices; evaluates them all."""
        found: list[Value] = []
        indices = indices_of(node)
        for item in indices:
            if not isinstance(item, ast.Slice):
                found.append(self.value(item))
                continue
            for part in (item.lower, item.upper, item.step):
                if part is not None:
                    self.value(part)
        return found[0] if len(found) == len(indices) == 1 else None

    def is_basic(self, node: ast.Subscript) -> bool:
        """Whether indexing gives a view: slices and literal numbers, no masks and index tensors."""
        return all(
            isinstance(item, (ast.Slice, ast.UnaryOp))
            or (isinstance(item, ast.Constant) and (item.value is ... or type(item.value) is int))
            for item in indices_of(node)
        )

    def element(self, owner: Value, key: object, node: ast.AST, *, basic: bool = False) -> Value:
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

    def _submodule(self, owner: Module, key: object, node: ast.AST) -> Value:
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

    def _parameter(self, owner: Value, node: ast.AST) -> Value:
        known = owner.part("[]")
        if known is None:
            known = Tensor(node, "parameter", owner.parents, leaf=True)
            known.order, known.loops = owner.order, owner.loops
            owner.set_part("[]", known)
        return known

    def _container_element(self, owner: Container, key: object, node: ast.AST) -> Value:
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
            known = Phi(element.site, (element,))
            known.order, known.loops, known.label, known.source = element.order, element.loops, element.label, owner
            owner.set_part("[]", known)
        return known

    def iterated(self, owner: Value, node: ast.AST) -> Value:
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

    def _binary(self, node: ast.BinOp) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        return self.operate(operator_of(node.op), left, right, node)

    def operate(self, op: str, left: Value, right: Value, node: ast.AST) -> Value:
        """The result of a binary operator; of two numbers a number, of two lists a list."""
        if isinstance(left, Plain) and isinstance(right, Plain):
            return Plain(node)
        containers = [item for item in (left, right) if isinstance(item, Container)]
        if containers and op in ("add", "mul"):
            inside = tuple(value for item in containers for value in item.elements())
            return self.made(Container(node, containers[0].kind, inside))
        result = self.made_tensor(op, (left, right), node)
        if op in ("mul", "div", "pow", "matmul"):
            self.emit(Compute(site_of(node), result))
        return result

    def made_tensor(self, op: str, parents: tuple[Value, ...], node: ast.AST, base: Value | None = None) -> Tensor:
        """The result of a tensor operator in the current grad mode."""
        return self.made(Tensor(node, op, parents, self.mode, base=base))

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
        return self.made_tensor("neg" if isinstance(node.op, ast.USub) else "bitwise", (operand,), node)

    def _comparison(self, node: ast.Compare) -> Value:
        operands = [self.value(node.left), *map(self.value, node.comparators)]
        if all(isinstance(item, Plain) for item in operands):
            return Plain(node)
        return self.made_tensor("compare", tuple(operands), node)

    def _boolean(self, node: ast.BoolOp) -> Value:
        found = self.value(node.values[0])
        for item in node.values[1:]:
            branch, path, outer = Branch(site_of(node), [[], []]), self.path, self.items
            self.items, self.path = branch.arms[0], (*path, (branch, 0))
            value = self.value(item)
            self.items, self.path = outer, path
            if branch.arms[0]:
                self.items.append(branch)
            found = self.phi(node, [found, value])
        return found

    def _if_expression(self, node: ast.IfExp) -> Value:
        self.value(node.test)
        branch, path, outer = Branch(site_of(node), []), self.path, self.items
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

    def _display(self, node: ast.Tuple | ast.List | ast.Set) -> Value:
        kind = type(node).__name__.lower()
        values: list[Value] = []
        for element in node.elts:
            if isinstance(element, ast.Starred):
                inner = resolved(self.value(element.value))
                values.extend(inner.elements() if isinstance(inner, Container) else [self.iterated(inner, node)])
            else:
                values.append(self.value(element))
        return self.made(Container(node, kind, tuple(values)))

    def _dict(self, node: ast.Dict) -> Value:
        made = self.made(Container(node, "dict"))
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            value = self.value(value_node)
            key = self.value(key_node) if key_node is not None else None
            if isinstance(key, Plain) and isinstance(key.constant, (str, int)):
                made.set_part(key.constant, value)
            else:
                made.add(value)
        return made

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
        outer, items = dict(self.frame.locals), self.items
        loop = Loop(site_of(node), [], depth=len(self.calls))
        self.loops, self.items = (*self.loops, loop), loop.body
        for generator in node.generators:
            self.assign_target(generator.target, self.iterated(self.value(generator.iter), generator))
            for condition in generator.ifs:
                self.value(condition)
        if isinstance(node, ast.DictComp):
            self.value(node.key)
            value = self.value(node.value)
        else:
            value = self.value(node.elt)
        self.frame.locals = outer
        self.loops, self.items = self.loops[:-1], items
        if loop.body:
            self.items.append(loop)
        kind = {ast.ListComp: "list", ast.SetComp: "set", ast.DictComp: "dict"}.get(type(node), "generator")
        return self.made(Container(node, kind, (value,)))

    def assign_target(self, target: ast.expr, value: Value) -> None:
        """Bind a target to a value."""
        raise NotImplementedError

    def _lambda(self, node: ast.Lambda) -> Value:
        return self.made(Function(self.definitions.functions[node], self.frame))

    def _named(self, node: ast.NamedExpr) -> Value:
        value = self.value(node.value)
        self.assign_target(node.target, value)
        return value

    def _await(self, node: ast.Await) -> Value:
        return self.value(node.value)

    def _yield(self, node: ast.Yield | ast.YieldFrom) -> Value:
        if node.value is not None:
            self.frame.returns.append(self.value(node.value))
        if self.frame.info is None or not self.frame.info.has_decorator("contextmanager"):
            self.emit(Yield(site_of(node)))
        return self.made(Unknown(node, "sent"))

    def _starred(self, node: ast.Starred) -> Value:
        return self.iterated(self.value(node.value), node)

    _evaluators: ClassVar[dict[type[ast.AST], Callable[..., Value]]] = {
        ast.Name: _name, ast.Attribute: _attribute, ast.Subscript: _subscript,
        ast.Call: lambda self, node: self.call(node),
        ast.Constant: _constant, ast.JoinedStr: _formatted,
        ast.BinOp: _binary, ast.UnaryOp: _unary, ast.Compare: _comparison,
        ast.BoolOp: _boolean, ast.IfExp: _if_expression,
        ast.Tuple: _display, ast.List: _display, ast.Set: _display, ast.Dict: _dict,
        ast.ListComp: _comprehension, ast.SetComp: _comprehension, ast.GeneratorExp: _comprehension,
        ast.DictComp: _comprehension, ast.Lambda: _lambda, ast.NamedExpr: _named, ast.Await: _await,
        ast.Yield: _yield, ast.YieldFrom: _yield, ast.Starred: _starred,
    }  # fmt: skip


def indices_of(node: ast.Subscript) -> list[ast.expr]:
    """What stands in the brackets: one index, or several that commas separate."""
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def target_text(node: ast.expr) -> str:
    """The dotted text of an assignment target, or an empty string."""
    return dotted(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""
