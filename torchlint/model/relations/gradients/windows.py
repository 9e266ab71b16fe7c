"""Accumulation windows: steps that run once per several micro-batches."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeAlias

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.events import Branch, Event
from torchlint.pytorch import api
from torchlint.syntax.python_ast import called_name, dotted, walk, written_alike
from torchlint.syntax.python_tree import PythonTree

LoopNode: TypeAlias = ast.For | ast.AsyncFor | ast.While
_PROGRESS = {name.rpartition(".")[2] for name in api.PROGRESS} - {"trange"}
_ACCUMULATES = LazyPattern(r"(?i)accum|micro_?(batch|step)")
"""Names of the numbers and flags of an accumulation window."""


Window = tuple[object, int]
"""The arm of a branch that ends a window, or that leaves within one."""


def windows_of(event: Event, tree: PythonTree) -> Iterator[Window]:
    """The arms around an event, or arms without it that leave, that count micro-batches."""
    for arm in (*event.path, *event.passed):
        branch, _ = arm
        node = tree.own_node(branch.site) if isinstance(branch, Branch) else None
        if isinstance(node, ast.If) and _is_counted(node.test, tree):
            if arm not in event.path or not _is_rest(node, arm):
                yield arm


def _is_rest(node: ast.If, arm: Window) -> bool:
    """Whether an arm holds all micro-batches but one of each window: the body of `if i % k != 0:` and `if i % k:`."""
    test = node.test
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.NotEq):
        test = test.left if is_number(test.comparators[0], 0) else test
    return arm[1] == 0 and isinstance(test, ast.BinOp) and isinstance(test.op, ast.Mod)


def _is_counted(test: ast.expr, tree: PythonTree) -> bool:
    """Whether a test depends on the number of a micro-batch: `(i + 1) % k == 0`, `count == accumulation_steps`."""
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.In, ast.NotIn)):
        return False  # `number % 5 not in (1, 2)` leaves some out
    if any(map(_counts, walk(test))):
        return True
    flag = test.operand if isinstance(test, ast.UnaryOp) else test
    if not isinstance(flag, (ast.Name, ast.Attribute)):
        return False
    assigned = (node for node in tree.of_type(ast.Assign) if any(map(_counts, walk(node.value))))
    return any(written_alike(target, flag) for node in assigned for target in node.targets)


def _counts(node: ast.AST) -> bool:
    """Whether an expression counts within a window, or has such a name."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Mod)
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return bool(_ACCUMULATES.search(name))


# -- tests and counters -----------------------------------------------------------------------------------


def window_end(test: ast.expr) -> str | None:
    """The counter of a test that is true for the last micro-batch of each window only: `(i + 1) % k == 0`."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq):
        return None
    rest, end = test.left, test.comparators[0]
    if not isinstance(rest, ast.BinOp) or not isinstance(rest.op, ast.Mod):
        return None
    number = rest.left
    if is_number(end, 0) and isinstance(number, ast.BinOp) and isinstance(number.op, ast.Add):
        return dotted(number.left) or None if is_number(number.right, 1) else None
    return dotted(number) or None


def remainder(test: ast.expr) -> ast.BinOp | None:
    """`c % k`, if a test is true at `c % k == 0`, whatever else it requires."""
    if isinstance(test, ast.BoolOp):
        found = [window for window in map(remainder, test.values) if window is not None]
        others = [item for item in test.values if remainder(item) is None]
        if len(found) != 1:
            return None
        is_guarded = isinstance(test.op, ast.And) and any(
            written_alike(found[0].left, n) for o in others for n in walk(o)
        )
        return None if is_guarded else found[0]
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _remainder(test.operand)
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq):
        return None
    sides = test.left, test.comparators[0]
    return next((_remainder(side) for side, other in (sides, sides[::-1]) if is_number(other, 0)), None)


def inverted(test: ast.expr) -> ast.BinOp | None:
    """`c % k`, if a test is false at `c % k == 0`, unless another condition holds, and true elsewhere."""
    if isinstance(test, ast.BoolOp):
        found = [item for item in map(inverted, test.values) if item is not None]
        return found[0] if isinstance(test.op, ast.Or) and len(found) == 1 else None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = test.operand
        is_remainder = isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Mod)
        return None if is_remainder or isinstance(inner, ast.BoolOp) else _compared(inner, ast.Eq)
    if isinstance(test, ast.BinOp):
        return test if isinstance(test.op, ast.Mod) else None
    return _compared(test, ast.NotEq)


def _compared(test: ast.expr, operator: type[ast.cmpop]) -> ast.BinOp | None:
    """`c % k` of a comparison with 0."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], operator):
        return None
    left = test.left
    is_remainder = isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mod) and is_number(test.comparators[0], 0)
    return left if is_remainder and isinstance(left, ast.BinOp) else None


def _remainder(node: ast.expr) -> ast.BinOp | None:
    is_one = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Name)
    return node if is_one and isinstance(node, ast.BinOp) else None


def counts_from_zero(counter: str, loop: LoopNode, test: ast.If, tree: PythonTree) -> bool:
    """Whether a counter is zero at a test in the first iteration of a loop."""
    inside = [node for part in loop.body for node in walk(part) if isinstance(node, ast.Name) and node.id == counter]
    changes = [node for node in inside if not isinstance(node.ctx, ast.Load)]
    if not changes:
        return not isinstance(loop, ast.While) and gives_from_zero(loop, counter)
    raised = tree.parent(changes[0])
    if len(changes) > 1 or not isinstance(raised, ast.AugAssign) or not isinstance(raised.op, ast.Add):
        return False
    is_later = raised in loop.body and raised.lineno > test.lineno
    return is_later and is_number(raised.value, 1) and _is_reset_before(counter, loop, tree)


def gives_from_zero(loop: ast.For | ast.AsyncFor, counter: str) -> bool:
    """Whether a loop counts its iterations: `enumerate(...)` or `range(n)`, perhaps in a progress bar."""
    over, target = loop.iter, loop.target
    while isinstance(over, ast.Call) and called_name(over) in _PROGRESS and over.args:
        over = over.args[0]
    name = called_name(over) if isinstance(over, ast.Call) else ""
    if not isinstance(over, ast.Call) or name not in ("enumerate", "range", "trange"):
        return False
    if name == "enumerate":
        first = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else None
        starts = [*over.args[1:], *(item.value for item in over.keywords)]
    else:
        first, starts = target, over.args[:-1] if len(over.args) < 3 else over.args[:1]
    return isinstance(first, ast.Name) and first.id == counter and all(is_number(item, 0) for item in starts)


def _is_reset_before(counter: str, loop: LoopNode, tree: PythonTree) -> bool:
    """Whether a counter is set to zero in the block of a loop, before the loop, and to no other value there."""
    block = tree.block(loop)
    before = [item for item in block if isinstance(item, ast.Assign) and item.lineno < loop.lineno]
    own = [item for item in before if any(isinstance(to, ast.Name) and to.id == counter for to in item.targets)]
    return bool(own) and all(is_number(item.value, 0) for item in own)


def is_number(node: ast.expr | None, number: int) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value == number
