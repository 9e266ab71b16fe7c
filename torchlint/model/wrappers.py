"""Hand-written decorators and context managers: the grad mode of the wrapped code."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.model.definitions import FunctionInfo, all_parameters
from torchlint.pytorch.api import GRAD_MODES
from torchlint.pytorch.effects import GradMode
from torchlint.syntax.python_ast import FUNCTIONS, dotted, walk


def wrapped_mode(wrapper: FunctionInfo) -> GradMode | None:
    """The grad mode of a decorator's call of its function, or of a context manager's yield; None: the caller's."""
    modes = {_mode_around(node, wrapper) for node in _wrapped(wrapper)}
    return modes.pop() if len(modes) == 1 else GradMode.UNKNOWN if modes else None


def fills_table(function: FunctionInfo) -> bool:
    """Whether a function stores something by a key, as a registering decorator does."""
    return any(isinstance(item, ast.Subscript) and isinstance(item.ctx, ast.Store) for item in walk(function.node))


def yields_of(generator: FunctionInfo) -> Iterator[ast.AST]:
    """The places where a generator yields."""
    return (node for node in walk(generator.node) if isinstance(node, (ast.Yield, ast.YieldFrom)))


def _wrapped(wrapper: FunctionInfo) -> Iterator[ast.AST]:
    """The places where a decorator calls its own parameter, or a context manager yields."""
    if wrapper.has_decorator("contextmanager"):
        yield from yields_of(wrapper)
        return
    nodes = list(walk(wrapper.node))
    names = {item.arg for node in nodes if isinstance(node, FUNCTIONS) for item in all_parameters(node)}
    yield from (node for node in nodes if _is_call_of(node, names))


def _is_call_of(node: ast.AST, names: set[str]) -> bool:
    """Whether a node calls one of these functions, also through a wrapper: `fn(x)`, `torch.no_grad()(fn)`."""
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id in names
    handed = node.args[0] if isinstance(node.func, ast.Call) and len(node.args) == 1 else None
    return isinstance(handed, ast.Name) and handed.id in names


def _mode_around(node: ast.AST, wrapper: FunctionInfo) -> GradMode | None:
    """The grad mode set by the innermost block or decorator around a node; None for the caller's mode."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Call):
        return _mode_of(node.func, wrapper)
    for item in wrapper.definitions.tree.ancestors(node):
        if item is wrapper.node:
            break
        contexts: list[ast.expr] = []
        if isinstance(item, (ast.With, ast.AsyncWith)):
            contexts = [entered.context_expr for entered in item.items]
        elif isinstance(item, FUNCTIONS):
            contexts = item.decorator_list
        modes = [mode for context in contexts if (mode := _mode_of(context, wrapper)) is not None]
        if modes:
            return modes[-1]
    return None


def _mode_of(context: ast.expr, wrapper: FunctionInfo) -> GradMode | None:
    call = context if isinstance(context, ast.Call) else None
    if call is not None and isinstance(call.func, ast.IfExp):  # (torch.inference_mode if is_new else torch.no_grad)()
        modes = {_mode_of(item, wrapper) for item in (call.func.body, call.func.orelse)}
        return modes.pop() if len(modes) == 1 else GradMode.UNKNOWN
    name = wrapper.definitions.qualified(dotted(call.func if call is not None else context), context)
    if name not in GRAD_MODES:
        return None
    return GRAD_MODES[name] if call is None or not (call.args or call.keywords) else GradMode.UNKNOWN
