"""Collective calls of `torch.distributed`, also in functions of the program."""

from __future__ import annotations

import ast

from torchlint.model.definitions import Definitions, FunctionInfo
from torchlint.model.queries import callees, names, written
from torchlint.syntax.python_ast import dotted, walk
from torchlint.syntax.python_tree import PythonTree

_ALL_REDUCE = "torch.distributed.all_reduce"
_IN_PLACE = frozenset({_ALL_REDUCE, "torch.distributed.reduce", "torch.distributed.broadcast"})
_COPIES = frozenset({"torch.tensor", "torch.clone", "copy.deepcopy", "copy.copy"})
_DEEPEST = 3
"""Maximum number of functions between a call and the sum over the processes."""


def sums(call: ast.Call, definitions: Definitions, steps: int = _DEEPEST) -> bool:
    """Whether a call leads to a sum over the processes, through functions without a division."""
    if names.imported(call.func, definitions) == _ALL_REDUCE:
        operation = written.argument(call, 1, "op")
        return operation is None or dotted(operation).endswith(".SUM")
    info = definitions.defined(dotted(call.func)) or names.function(call.func, definitions)
    if not steps or not isinstance(info, FunctionInfo):
        return False
    inside = list(walk(info.node))
    if any(isinstance(item, (ast.BinOp, ast.AugAssign)) and isinstance(item.op, ast.Div) for item in inside):
        return False
    return any(sums(item, info.definitions, steps - 1) for item in inside if isinstance(item, ast.Call))


def sums_parts(call: ast.Call, definitions: Definitions) -> bool:
    """Whether a function of the program returns parts of an argument as sums over the processes, under the same keys.

    `found["total"] = summed(scores["total"])`, perhaps through a variable and `{"total": total}`.
    """
    info = callees.function(call.func, definitions)
    if not isinstance(info, FunctionInfo):
        return False
    nodes, known = list(names.own_nodes(info.node)), info.definitions
    for item in nodes:
        key = _key(item.args[0]) if isinstance(item, ast.Call) and len(item.args) == 1 else None
        if isinstance(item, ast.Call) and key is not None and sums(item, known):
            if any(key == _stored_under(value, known.tree) for value in _same(item, nodes, known)):
                return True
    return False


def _key(node: ast.AST) -> object:
    """The constant key of a part: `scores[name]["total"]`."""
    part = node.slice if isinstance(node, ast.Subscript) else None
    return part.value if isinstance(part, ast.Constant) else None


def _same(call: ast.Call, nodes: list[ast.AST], known: Definitions) -> list[ast.expr]:
    """A call, and the places that read the variable to which it is assigned."""
    names_ = (item for item in nodes if isinstance(item, ast.Name))
    stored = [item for item in names_ if _is_stored(item) and written.assigned(item, known) is call]
    reads = (item for item in nodes if isinstance(item, ast.Name) and not _is_stored(item))
    return [call, *(item for item in reads if any(item.id == target.id for target in stored))]


def _stored_under(value: ast.expr, tree: PythonTree) -> object:
    """The key under which code stores a value: `{"total": value}` or `found["total"] = value`."""
    around = tree.parent(value)
    if isinstance(around, ast.Dict) and value in around.values:
        key = around.keys[around.values.index(value)]
        return key.value if isinstance(key, ast.Constant) else None
    target = around.targets[0] if isinstance(around, ast.Assign) else None
    return _key(target) if target is not None else None


def is_result_read(target: ast.expr, tree: PythonTree) -> bool:
    """Whether something computes with what is assigned, and does not ask for None or wait for it."""
    name = dotted(target)
    reads = [
        node for node in tree.of_type(ast.Name, ast.Attribute)
        if isinstance(node.ctx, ast.Load) and dotted(node) == name and node.lineno > target.lineno
    ]  # fmt: skip
    parents = [tree.parent(node) for node in reads]
    if any(isinstance(item, ast.Attribute) and item.attr in ("wait", "is_completed") for item in parents):
        return False
    return bool(parents) and not any(isinstance(item, (ast.Compare, ast.If)) for item in parents)


def repeats_one(made: ast.expr) -> bool:
    """Whether an expression is a list of one tensor several times: `[tensor] * n`."""
    if not isinstance(made, ast.BinOp) or not isinstance(made.op, ast.Mult):
        return False
    lists = [item for item in (made.left, made.right) if isinstance(item, ast.List) and len(item.elts) == 1]
    return len(lists) == 1 and not isinstance(lists[0].elts[0], ast.Constant)


def reduced_copy(call: ast.Call, definitions: Definitions) -> FunctionInfo | None:
    """The function of the program that a call runs, if all that it does is to reduce a copy, which it returns."""
    info = callees.function(call.func, definitions)
    if not isinstance(info, FunctionInfo) or info.is_generator or info.decorators or not call.args:
        return None
    if _has_effects(info):
        return None
    nodes = list(names.own_nodes(info.node))
    returned = [node.value for node in nodes if isinstance(node, ast.Return) and node.value is not None]
    for node in nodes:
        if isinstance(node, ast.Call) and names.imported(node.func, info.definitions) in _IN_PLACE and node.args:
            name = node.args[0].id if isinstance(node.args[0], ast.Name) else ""
            stores = [item for item in nodes if isinstance(item, ast.Name) and item.id == name and _is_stored(item)]
            made = written.assigned(stores[0], info.definitions) if len(stores) == 1 else None
            reads = {item.id for value in returned for item in walk(value) if isinstance(item, ast.Name)}
            of = {item.id for item in walk(made) if isinstance(item, ast.Name)} if made is not None else set()
            if made is not None and _is_copy(made, info.definitions) and name in reads and of & {*info.parameters}:
                return info
    return None


def _is_stored(node: ast.Name | ast.Attribute | ast.Subscript) -> bool:
    return not written.is_load(node)


def _is_copy(made: ast.expr, definitions: Definitions) -> bool:
    """Whether an expression surely makes a tensor of its own: `torch.as_tensor(x).clone().float()`."""
    while isinstance(made, ast.Call):
        if names.imported(made.func, definitions) in _COPIES:
            return True
        if not isinstance(made.func, ast.Attribute):
            return False
        if made.func.attr == "clone":
            return True
        made = made.func.value
    return False


def _has_effects(info: FunctionInfo) -> bool:
    """Whether a function may change what others see: it sets a part of an object, or calls for an effect."""
    for node in names.own_nodes(info.node):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and _is_stored(node):
            return True
        if isinstance(node, (ast.Global, ast.Nonlocal, ast.AugAssign, ast.Delete)):
            return True
        statement = node.value if isinstance(node, ast.Expr) else None
        if isinstance(statement, ast.Call):
            if not names.imported(statement.func, info.definitions).startswith("torch.distributed."):
                return True
    return False
