"""Lines that may be defective, by their syntax. A run examines each of them and shows that most are correct."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.files.python import python_tree
from torchlint.files.source import SourceFile
from torchlint.finding import Finding, Position, Severity, Span, fingerprint
from torchlint.verify.paths import AccessPath, path_of, paths_in

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_GRAD_MODES = {"no_grad", "inference_mode", "set_grad_enabled"}
_OF_TORCH = {"backward", "step", "train", "eval", "to", "cuda", "cpu", "load_state_dict", "register_buffer", "format"}
"""Methods that keep nothing of their arguments, or keep it on purpose."""
_ZEROS = {"zeros", "zeros_like"}
_JOINS = {"cat", "concat", "concatenate", "stack", "hstack", "vstack", "add"}
_CHANGES_NO_VALUE = {"requires_grad_", "share_memory_", "rename_", "retain_grad_"}


def candidates(source: SourceFile) -> list[Finding]:
    """A finding for each rule that a statement may break; raises `SyntaxError` and `ValueError` as `ast.parse` does."""
    found: list[Finding] = []
    for node in ast.walk(python_tree(source.code)):
        if isinstance(node, ast.stmt):
            found += (finding_at(source, rule, node.lineno) for rule in _rules(node))
    return found


def finding_at(source: SourceFile, rule: str, line: int, code: str = "", message: str = "") -> Finding:
    """A finding about a line as a whole."""
    text = source.line(line)
    start = len(text) - len(text.lstrip())
    span = Span(Position(line, start), Position(line, max(start, len(text.rstrip()))))
    same = fingerprint(rule, text, 1)
    return Finding(source.path, rule, code, message, span, Severity.ERROR, fingerprint=same)


def is_switch(source: SourceFile, line: int) -> bool:
    """Whether a statement switches gradients off until they are switched on again: not for a block or a function."""
    text = source.line(line).strip()
    return "set_grad_enabled" in text and not text.startswith(("with ", "async ", "@"))


def _rules(statement: ast.stmt) -> Iterator[str]:
    """The rules that a run examines at this statement itself, without its body."""
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        if any(_mentions(item.context_expr, _GRAD_MODES) for item in statement.items):
            yield "training-under-no-grad"
    elif isinstance(statement, _FUNCTIONS):
        if any(_mentions(item, _GRAD_MODES) for item in statement.decorator_list):
            yield "training-under-no-grad"
    elif isinstance(statement, (ast.For, ast.AsyncFor)):
        if _iterates_over_name(statement.iter):
            yield "exhausted-generator"
    elif isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Delete, ast.Return)):
        yield from _of_simple(statement)


def _of_simple(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.Expr) and _mentions(statement.value, {"set_grad_enabled"}):
        yield "training-under-no-grad"
    elif _clears(statement):
        yield "cleared-before-step"
    elif _keeps(statement):
        yield "undetached-accumulation"
    if _changes_in_place(statement):
        yield "inplace-on-saved-tensor"


def _iterates_over_name(iterable: ast.expr) -> bool:
    """Whether a loop iterates over a value with a name, perhaps inside of calls such as `enumerate`."""
    while isinstance(iterable, ast.Call) and iterable.args:
        iterable = iterable.args[0]
    return isinstance(iterable, (ast.Name, ast.Attribute))


def _mentions(node: ast.AST, names: set[str]) -> bool:
    return any(
        (isinstance(item, ast.Attribute) and item.attr in names) or (isinstance(item, ast.Name) and item.id in names)
        for item in ast.walk(node)
    )


def _clears(statement: ast.stmt) -> bool:
    """Whether gradients may be gone afterwards: `zero_grad()`, `x.grad = None`, `x.grad.zero_()`, `del x.grad`."""
    if any(isinstance(item, ast.Attribute) and item.attr == "grad" for item in _targets(statement)):
        value = getattr(statement, "value", None)  # a gradient that is replaced by another one is not cleared
        return value is None or (isinstance(value, ast.Constant) and value.value is None) or _mentions(value, _ZEROS)
    methods = [call.func for call in _calls(statement) if isinstance(call.func, ast.Attribute)]
    return any(
        method.attr == "zero_grad" or (method.attr.endswith("_") and _mentions(method.value, {"grad"}))
        for method in methods
    )


def _targets(statement: ast.stmt) -> list[ast.expr]:
    if isinstance(statement, (ast.Assign, ast.Delete)):
        return list(statement.targets)
    return [statement.target] if isinstance(statement, (ast.AugAssign, ast.AnnAssign)) else []


def _calls(statement: ast.stmt) -> Iterator[ast.Call]:
    return (item for item in ast.walk(statement) if isinstance(item, ast.Call))


def _keeps(statement: ast.stmt) -> bool:
    """Whether a value may outlive an iteration: in a container, an object, or a sum."""
    if isinstance(statement, ast.AugAssign):
        return isinstance(statement.op, ast.Add)
    if isinstance(statement, ast.Assign):
        stored = any(isinstance(item, (ast.Subscript, ast.Attribute)) for item in statement.targets)
        return stored or any(_adds_to(statement.value, path_of(item)) for item in statement.targets)
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    name = call.func.attr
    return bool(call.args or call.keywords) and name not in _OF_TORCH and not name.endswith("_")


def _adds_to(value: ast.expr, path: AccessPath | None) -> bool:
    """Whether the new value adds to the old one or extends it: `x + y`, `cat([x, y])`."""
    if isinstance(value, ast.BinOp):
        return path in set(paths_in(value))
    joins = isinstance(value, ast.Call) and _mentions(value.func, _JOINS)
    return joins and path in set(paths_in(value))


def _changes_in_place(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.AugAssign):
        return True
    if any(isinstance(item, ast.Subscript) for item in _targets(statement)):
        return True
    return any(_call_changes(call) for call in _calls(statement))


def _call_changes(call: ast.Call) -> bool:
    """`x.add_(y)`, `relu(x, inplace=True)`, `add(x, y, out=x)`."""
    if any(keyword.arg in ("inplace", "out") for keyword in call.keywords):
        return True
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    return name.endswith("_") and not name.endswith("__") and name not in _CHANGES_NO_VALUE
