"""The out-of-place form of a change in place."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

import libcst as cst

from torchlint.model import Model
from torchlint.model.events import Mutate
from torchlint.model.queries import names
from torchlint.model.values import Tensor, Value, resolved
from torchlint.pytorch import operators
from torchlint.pytorch.autograd_table import OPERATORS
from torchlint.pytorch.effects import GradMode
from torchlint.syntax.edits import Change, Delete, InsertBefore, NodeEdit, Prepend, Replace
from torchlint.syntax.matching import Nodes
from torchlint.syntax.python_ast import dotted as dotted_name
from torchlint.syntax.python_ast import walk
from torchlint.syntax.python_tree import PythonTree
from torchlint.syntax.tree import dotted

_BINDS_LOOSELY = (
    cst.BinaryOperation,
    cst.BooleanOperation,
    cst.UnaryOperation,
    cst.Comparison,
    cst.IfExp,
    cst.Lambda,
    cst.NamedExpr,
)
_PRODUCTS = (cst.Multiply, cst.Divide, cst.FloorDivide, cst.Modulo, cst.MatrixMultiply, cst.Power)


class OutOfPlace:
    """Looks for how a change in place could be written so that what autograd saved stays as it is."""

    def __init__(self, model: Model, nodes: Nodes) -> None:
        self.program = model.program
        self.nodes = nodes
        self.python = nodes.python
        self.tree = nodes.tree

    def change(self, mutate: Mutate) -> Change | None:
        """The out-of-place form; None where it does not exist or has no graph, or where others may need the change."""
        return self._form(mutate) if self._has_graph(mutate) and not self._is_for_others(mutate) else None

    def _form(self, mutate: Mutate) -> Change | None:
        node, target = self.nodes.at(mutate.site), resolved(mutate.target)
        if isinstance(node, cst.Subscript):
            return self._cloned(node, target)
        if isinstance(node, cst.AugAssign) and isinstance(node.target, cst.Subscript):
            if not isinstance(target, Tensor) or target.op == operators.GETITEM:
                return self._cloned(node.target, _whole(target))
        if self._is_view(mutate.target):
            return None
        if isinstance(node, cst.AugAssign):
            return self._augmented(node)
        if isinstance(node, cst.Call):
            return self._called(mutate, node)
        return None

    def _is_view(self, value: Value) -> bool:
        """Whether a value shares the storage of another one, and is not just what a change in place made of it."""
        value = resolved(value)
        while isinstance(value, Tensor) and value.base is not None:
            if value not in self.program.changed:
                return True
            value = resolved(value.base)
        return False

    def _has_graph(self, mutate: Mutate) -> bool:
        """Whether a new tensor may have the graph of the changed one: under `no_grad` it has none."""
        return mutate.mode is not GradMode.OFF

    # -- who sees the change ----------------------------------------------------------------------------

    def _is_for_others(self, mutate: Mutate) -> bool:
        """Whether the change may be meant for what reads the tensor by another name.

        That is the variable it was bound from, or the list or object it was taken from; where nothing reads its own
        name any more, also one that may share its storage.
        """
        here = self.python.node(mutate.site)
        name = _changed_name(here)
        if not name or (isinstance(here, ast.Call) and not self.python.stands_alone(here)):
            return False
        known = self.program.definitions
        around = known.function_around(here)
        bound = _bindings(around.node if around is not None else self.python.module).get(name, [])
        before = [item for item in bound if getattr(item, "lineno", 0) <= getattr(here, "lineno", 0)]
        alone = not names.is_read_after(name, here, known)
        sources = [source for item in before for source in _sources(item, name, alone=alone)]
        owners = {item.id for source in sources for item in walk(source) if isinstance(item, ast.Name)} - {name}
        return any(names.is_read_after(owner, here, known) for owner in owners)

    # -- statements -------------------------------------------------------------------------------------

    def _augmented(self, node: cst.AugAssign) -> Change | None:
        """`y += 1` -> `y = y + 1`, also of an element of a list or dictionary."""
        if not _is_variable(node.target) and not _is_slot(node.target):
            return None
        target, operator = self.tree.code(node.target), _symbol(self.tree.code(node.operator)).removesuffix("=")
        edits: list[NodeEdit] = [Replace(node.operator, f"= {target} {operator}")]
        if _needs_brackets(node.value, operator):
            edits.append(Replace(node.value, f"({self.tree.code(node.value)})"))
        return Change(f"write `{target} = {target} {operator} ...`", edits)

    def _cloned(self, element: cst.Subscript, owner: Value) -> Change | None:
        """`y[0] = 1` -> `y = y.clone(); y[0] = 1`, where `owner` is the value of `y`."""
        whole = element.value
        while isinstance(whole, cst.Subscript) and isinstance(owner, Tensor) and owner.op == operators.GETITEM:
            whole, owner = whole.value, _whole(owner)
        if not isinstance(whole, cst.Subscript) and not _is_variable(whole):
            return None
        name = self.tree.code(whole)
        statement = f"{name} = {name}.clone()"
        return Change(f"insert `{statement}` before the change", [InsertBefore(element, statement)])

    # -- calls ------------------------------------------------------------------------------------------

    def _called(self, mutate: Mutate, call: cst.Call) -> Change | None:
        module = self.program.observations.in_place_modules.get(mutate.result)
        if module is not None:
            made = self.nodes.at(module.site) if not self._also_changes_elsewhere(mutate) else None
            return self._without_flag(made, call, call.args[0].value)
        if mutate.result in self.program.observations.in_place_results:
            return self._without_flag(call, call, call.args[0].value)
        if not isinstance(call.func, cst.Attribute) or not call.func.attr.value.endswith("_"):
            return None
        name = call.func.attr.value.removesuffix("_")
        function = self.program.definitions.qualified(dotted(call.func)).startswith("torch.")
        target = call.args[0].value if function and call.args else call.func.value
        if name not in OPERATORS or not _is_variable(target):
            return None
        bound = self._bound(call, dotted(target))
        if bound is None:
            return None
        return Change(f"use `{name}`, which is not in place", [*bound, Replace(call.func.attr, name)])

    def _also_changes_elsewhere(self, mutate: Mutate) -> bool:
        """Whether the layer that is called here is also called somewhere for its change in place alone."""
        here = self.python.node(mutate.site)
        layer = dotted_name(here.func) if isinstance(here, ast.Call) else ""
        return bool(layer) and any(item is not here for item in _calls_alone(self.python).get(layer, ()))

    def _without_flag(self, made: cst.CSTNode | None, call: cst.Call, argument: cst.BaseExpression) -> Change | None:
        """`F.relu(y, inplace=True)` -> `F.relu(y)`; a module loses the flag where it is made."""
        for item in made.args if isinstance(made, cst.Call) else ():
            if item.keyword is None or item.keyword.value != "inplace":
                continue
            bound = self._bound(call, dotted(argument)) if self.tree.stands_alone(call) else ()
            return None if bound is None else Change("drop `inplace=True`", [*bound, Delete(item)])
        return None

    def _bound(self, call: cst.Call, target: str) -> Sequence[NodeEdit] | None:
        """The binding of a call's result to the name that the call changed; None if the result has another use."""
        parent = self.tree.parent(call)
        if self.tree.stands_alone(call):
            return [Prepend(call, f"{target} = ")] if target else None
        if isinstance(parent, cst.Assign) and [dotted(item.target) for item in parent.targets] == [target]:
            return []
        return None


def _changed_name(node: ast.AST) -> str:
    """The variable of `y += 1`, `y[0] = 1`, `y.add_(1)`; that of a container for what is in it."""
    if isinstance(node, ast.Call):
        node = node.func.value if isinstance(node.func, ast.Attribute) else node
    node = node.target if isinstance(node, ast.AugAssign) else node
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


@lru_cache(maxsize=1)
def _calls_alone(tree: PythonTree) -> dict[str, list[ast.Call]]:
    """The calls of a file that are statements, by what they call."""
    found: dict[str, list[ast.Call]] = {}
    for call in tree.of_type(ast.Call):
        if tree.stands_alone(call):
            found.setdefault(dotted_name(call.func), []).append(call)
    return found


@lru_cache(maxsize=4)
def _bindings(scope: ast.AST) -> dict[str, list[ast.AST]]:
    """The assignments and loops in a function, or in the module, by each name that they bind."""
    found: dict[str, list[ast.AST]] = {}
    for node in walk(scope):
        bound: set[str] = set()
        if isinstance(node, ast.Assign):
            bound = {dotted_name(target) for target in node.targets}
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            bound = {item.id for item in walk(node.target) if isinstance(item, ast.Name)}
        for name in bound:
            found.setdefault(name, []).append(node)
    return found


def _sources(node: ast.AST, name: str, *, alone: bool) -> Iterator[ast.expr]:
    """The sources of a binding that share their tensor with the name; with `alone` also parts of a tensor."""
    same = (ast.Name, ast.Attribute, ast.Subscript)
    if isinstance(node, ast.Assign) and any(dotted_name(target) == name for target in node.targets):
        if isinstance(node.value, (*same, ast.Call, ast.Dict, ast.List, ast.Tuple) if alone else same):
            yield node.value
    elif isinstance(node, (ast.For, ast.AsyncFor)):
        if any(isinstance(item, ast.Name) and item.id == name for item in walk(node.target)):
            yield node.iter


def _whole(part: Value) -> Value:
    """The tensor of which a value is a part by its index."""
    is_part = isinstance(part, Tensor) and part.op == operators.GETITEM and part.parents
    return resolved(part.parents[0]) if is_part else part


def _is_variable(node: cst.BaseExpression) -> bool:
    """A name or attribute that can be bound anew, and is no other form of one that stays."""
    if isinstance(node, cst.Attribute):
        return bool(dotted(node)) and node.attr.value not in ("data", "grad")
    return isinstance(node, cst.Name)


def _is_slot(node: cst.BaseExpression) -> bool:
    """`items[i]`, `items["key"]`: an element that is the same if it is asked for twice."""
    if not isinstance(node, cst.Subscript) or not _is_variable(node.value) or len(node.slice) != 1:
        return False
    index = node.slice[0].slice
    return isinstance(index, cst.Index) and isinstance(index.value, (cst.Name, cst.Integer, cst.SimpleString))


def _symbol(code: str) -> str:
    """An operator without the white space and the continued lines around it."""
    return re.sub(r"[\s\\]+", "", code)


def _needs_brackets(value: cst.BaseExpression, operator: str) -> bool:
    if value.lpar or not isinstance(value, _BINDS_LOOSELY):
        return False
    is_product = isinstance(value, cst.BinaryOperation) and isinstance(value.operator, _PRODUCTS)
    return not (is_product and operator in ("+", "-"))
