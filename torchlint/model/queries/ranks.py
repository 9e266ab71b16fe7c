"""The rank of a distributed process: values that are the rank, and conditions on it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.model.queries import names, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.model.definitions import Definitions, FunctionInfo

_CALLS = frozenset({"torch.distributed.get_rank", "torch.distributed.distributed_c10d.get_rank"})
_VARIABLES = frozenset({"RANK", "LOCAL_RANK", "SLURM_PROCID"})
_DEPTH = 4


def asks(test: ast.expr, known: Definitions, depth: int = _DEPTH) -> bool:
    """Whether a condition compares the rank with a number, so that it holds for some processes only."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(asks(item, known, depth) for item in test.values)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return asks(test.operand, known, depth)
    if isinstance(test, ast.Compare):
        is_equal = len(test.ops) == 1 and isinstance(test.ops[0], (ast.Eq, ast.NotEq))
        return is_equal and isinstance(test.comparators[0], ast.Constant) and is_rank(test.left, known, depth)
    if not depth:
        return False
    if isinstance(test, ast.Call) and not test.args and not test.keywords:
        function = names.function(test.func, known)
        returned = names.returned_value(function) if function is not None else None
        return returned is not None and asks(returned, known, depth - 1)
    value = written.value_in_file(test, known)
    return value is not None and asks(value, known, depth - 1)


def is_rank(node: ast.expr, known: Definitions, depth: int = _DEPTH) -> bool:
    """Whether a value is the rank: from `get_rank()`, the environment, or an argument that every call passes."""
    if isinstance(node, ast.Call):
        if python_ast.dotted(node.func) == "int" and len(node.args) == 1:
            return is_rank(node.args[0], known, depth)
        if python_ast.dotted(node.func) in ("os.environ.get", "os.getenv") and node.args:
            return _names_rank(node.args[0])
        return names.imported(node.func, known) in _CALLS
    if isinstance(node, ast.Subscript):
        return python_ast.dotted(node.value) == "os.environ" and _names_rank(node.slice)
    if not depth:
        return False
    value = written.value_in_file(node, known)
    if value is not None:
        return is_rank(value, known, depth - 1)
    return isinstance(node, ast.Name) and (_is_used_as_rank(node, known) or _is_passed(node, known, depth - 1))


def _is_used_as_rank(name: ast.Name, known: Definitions) -> bool:
    """Whether the function of a parameter passes it as a rank: `init_process_group(rank=rank)`, `device_ids=[rank]`."""
    function = known.function_around(name)
    if function is None or name.id not in function.parameters or name.id in known.names_assigned([function.node]):
        return False
    for item in names.own_nodes(function.node):
        if isinstance(item, ast.keyword):
            given = item.value.elts if isinstance(item.value, ast.List) and len(item.value.elts) == 1 else [item.value]
            is_rank_of = item.arg in ("rank", "device_ids") and isinstance(known.tree.parent(item), ast.Call)
            if is_rank_of and python_ast.dotted(given[0]) == name.id:
                return True
    return False


def _names_rank(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in _VARIABLES


def _is_passed(name: ast.Name, known: Definitions, depth: int) -> bool:
    """Whether a name is a parameter to which each call in the file passes the rank."""
    function = known.function_around(name)
    if function is None or name.id not in function.parameters:
        return False
    if name.id in known.names_assigned([function.node]):
        return False
    calls = list(_calls_of(function, known))
    index = function.parameters.index(name.id) - int(function.is_method)
    given = [
        next((item.value for item in call.keywords if item.arg == name.id), None)
        or (call.args[index] if 0 <= index < len(call.args) else None)
        for call in calls
    ]
    return bool(calls) and all(item is not None and is_rank(item, known, depth) for item in given)


def _calls_of(function: FunctionInfo, known: Definitions) -> Iterator[ast.Call]:
    """The calls to a function, or to its class if it is a constructor."""
    is_constructor = function.name == "__init__" and function.owner is not None
    called = function.owner.name if is_constructor and function.owner is not None else function.name
    for call in known.tree.of_type(ast.Call):
        if python_ast.called_name(call) == called:
            yield call
