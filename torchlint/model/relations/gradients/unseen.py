"""Clearings and backward passes that other code may run at any time: `stack.callback(optimizer.zero_grad)`."""

from __future__ import annotations

import ast
from itertools import chain

from torchlint.index import FileIndex
from torchlint.model.definitions import Definitions, FunctionInfo
from torchlint.model.events import Step
from torchlint.model.program import Program
from torchlint.model.values import Optimizer, resolved
from torchlint.pytorch import naming
from torchlint.syntax.python_ast import called_name, dotted, is_literal, walk
from torchlint.syntax.python_tree import PythonTree

CLEARING = frozenset({"zero_grad"})
_FOLLOWED = frozenset({"register_step_pre_hook", "register_step_post_hook", "step"})
"""The methods known to call the function they receive, and known when."""
_TELLING = frozenset("no_grad enable_grad inference_mode staticmethod classmethod property override".split())
"""Decorators that do not publish their function."""
_TRAINING = frozenset({"backward", "step", "manual_backward"})


def may_clear_any(program: Program, handed: list[ast.Attribute]) -> bool:
    """Whether a program passes on a clearing method, wraps functions in one, or keeps views of gradients.

    `handed` are the clearing methods that it passes on.
    """
    tree, nodes = program.tree, program.nodes
    if any(not naming.looks_like_optimizer(_owner(node)) for node in handed):
        return True
    clearings = (call for file in program.files for call in FileIndex.of(file).calls_named(*CLEARING))
    if any(map(_keeps_views, nodes(ast.Assign))) or any(map(_is_unbound, clearings)):
        return True
    clearing = {info.name: info for file in program.files.values() for info in _clearing_in(file)}
    if not clearing:
        return False
    if any(_is_called_by_others(info, tree) or _is_wrapper(info) for info in clearing.values()):
        return True
    named = chain(
        (node for node in nodes(ast.Name) if node.id in clearing),
        (node for node in nodes(ast.Attribute) if node.attr in clearing),
    )
    return any(_is_handed_on(node, tree) for node in named)


def may_clear(program: Program, step: Step, handed: list[ast.Attribute]) -> bool:
    """Whether a passed-on `zero_grad` may belong to the optimizer of a step.

    It does not if the stepping function creates its optimizer itself, and does not run the code that passes on the
    other.
    """
    if not handed:
        return False
    trace = next(item for item in program.traces if step in item.of(Step))
    optimizer = resolved(step.optimizer)
    if not isinstance(optimizer, Optimizer) or optimizer.order <= trace.start or trace.root is None or "." in step.name:
        return True
    functions = map(program.definitions.function_around, handed)
    return any(function is None or function in trace.observations.interpreted for function in functions)


def handed_on(program: Program, methods: frozenset[str]) -> list[ast.Attribute]:
    """`stack.callback(optimizer.zero_grad)`: the places that read a method and do not call it."""
    read = (node for node in program.nodes(ast.Attribute) if node.attr in methods)
    return [node for node in read if _is_handed_on(node, program.tree)]


def _owner(node: ast.Attribute) -> str:
    return dotted(node.value).rpartition(".")[2]


def _is_handed_on(node: ast.expr, tree: PythonTree) -> bool:
    """Whether a method that is read is neither called there, nor a statement of its own (a call without brackets)."""
    parent = tree.parent(node)
    if not isinstance(getattr(node, "ctx", None), ast.Load) or isinstance(parent, (ast.Expr, ast.Attribute)):
        return False
    bound = parent.targets[0] if isinstance(parent, ast.Assign) and len(parent.targets) == 1 else None
    if isinstance(node, ast.Attribute) and isinstance(bound, ast.Name):  # clear = optimizer.zero_grad
        return any(_is_handed_on(item, tree) for item in tree.of_type(ast.Name) if item.id == bound.id)
    return not (isinstance(parent, ast.Call) and parent.func is node)


def _clearing_in(file: Definitions) -> list[FunctionInfo]:
    """The functions of a file that clear gradients, and do not train: no closures for `step`."""
    index = FileIndex.of(file.tree)
    stores = (node for node in file.tree.of_type(ast.Assign) if is_literal(node.value, None))
    clearings: list[ast.AST] = [*index.calls_named(*CLEARING)]
    clearings += [node for node in stores if any(map(_is_gradient, node.targets))]
    clearing = {item for node in clearings for item in file.tree.ancestors(node)}
    training = {item for call in index.calls_named(*_TRAINING) for item in file.tree.ancestors(call)}
    return [info for node, info in file.functions.items() if node in clearing and node not in training]


def _is_gradient(target: ast.expr) -> bool:
    return isinstance(target, ast.Attribute) and target.attr == "grad"


def _is_called_by_others(info: FunctionInfo, tree: PythonTree) -> bool:
    """Whether other code may call a function.

    It is a lambda argument, a module's `forward`, or has a decorator: `@loss.setter`, `@on("batch_end")`.
    """
    if isinstance(info.node, ast.Lambda):
        user = tree.parent(info.node)
        return isinstance(user, ast.keyword) or (isinstance(user, ast.Call) and called_name(user) not in _FOLLOWED)
    decorators = [dotted(item.func if isinstance(item, ast.Call) else item) for item in info.decorators]
    is_of_others = any(name.rpartition(".")[2] not in _TELLING for name in decorators)
    return is_of_others or (info.is_method and info.name in ("forward", "__call__"))


def _is_wrapper(info: FunctionInfo) -> bool:
    """Whether a function is the inner one that a decorator returns."""
    outer = info.enclosing
    returned = (node.value for node in walk(outer.node) if isinstance(node, ast.Return)) if outer is not None else ()
    return any(isinstance(item, ast.Name) and item.id == info.name for item in returned)


def _is_unbound(call: ast.Call) -> bool:
    """A method read from its class: `nn.Module.zero_grad(net)`."""
    return dotted(call.func).endswith("Module.zero_grad")


def _keeps_views(node: ast.Assign) -> bool:
    """`p.grad = buffer[start:end].view_as(p)`: filling the buffer with zeros clears the gradient."""
    if not any(map(_is_gradient, node.targets)):
        return False
    return any(isinstance(item, ast.Slice) for item in walk(node.value))
