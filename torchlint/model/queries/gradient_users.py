"""Code that handles gradients itself, shown by `requires_grad` or by its names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from torchlint.index import FileIndex
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import definitions, module_values, values
from torchlint.pytorch import api, naming, triggers
from torchlint.syntax import python_ast, python_tree

if TYPE_CHECKING:
    from torchlint.model import Model, program


_CLEARING = frozenset(word.decode() for word in triggers.CLEAR)
_TAKING_GRADIENTS = frozenset({"grad", "backward", "enable_grad", "vjp", "jvp", "jacobian", "hessian"})
_FREEZING_ALL = frozenset({"freeze_params", "freeze_parameters", "freeze_model", "freeze_all", "freeze_weights"})
"""Options of classes of other packages that freeze a whole model: SpeechBrain's `Pretrained`."""
_SAYING = _FREEZING_ALL | {"volatile"}
_CALLED_UNSEEN = frozenset({"forward", "__call__", "__init__", "training_step"})
"""Functions that other code calls without their name."""
_FREEZES_ITSELF = LazyPattern(
    rb"\bself\s*\.\s*(?:requires_grad_\s*\(|parameters\(\s*\)\s*:\s*(?:#[^\n]*)?\s+\w+\s*\.\s*requires_grad\b)"
)
"""A network that sets `requires_grad` of all its own parameters, like networks that measure others."""
_SWITCHES_OFF = LazyPattern(rb"^(?:[\w.]+\.)?set_grad_enabled\s*\(\s*False", re.MULTILINE)
"""A module that switches gradients off for all its importers."""


def speaks_of_gradients(node: ast.AST) -> bool:
    """Whether a node contains a name about gradients, except names that clear them."""
    return any(naming.DIFFERENTIATING.search(name) for name in _names(node) if name not in _CLEARING)


def stands_without_gradients(node: ast.AST, tree: python_tree.PythonTree) -> bool:
    """Whether a node is in a block or a decorated function that may switch gradients off, by names."""
    for item in tree.ancestors(node):
        contexts: list[ast.expr] = []
        if isinstance(item, (ast.With, ast.AsyncWith)):
            contexts = [part.context_expr for part in item.items]
        elif isinstance(item, python_ast.FUNCTIONS):
            contexts = item.decorator_list
        if any(naming.SWITCHES_GRADIENTS.search(_last_name(context)) for context in contexts):
            return True
    return False


def callers_of(name: str, file: definitions.Definitions) -> set[str]:
    """The names of a file's functions that call a function with this name."""
    calls = FileIndex.of(file.tree).calls_named(name)
    around = (file.method_around(call) for call in calls)
    return {function.name for function in around if function is not None}


def is_only_run_without_gradients(name: str, model: Model) -> bool:
    """Whether other files call a function of this file, and all of them with gradients off."""
    if name in _CALLED_UNSEEN or any(True for _ in FileIndex.of(model.tree).calls_named(name)):
        return False
    others = [other.tree for other in model.importers(name, (name.encode(),))]
    calls = [(call, tree) for tree in others for call in FileIndex.of(tree).calls_named(name)]
    return bool(calls) and all(stands_without_gradients(call, tree) for call, tree in calls)


def has_callers_without_gradients(trace: program.Trace, model: Model) -> bool:
    """Whether a call of a trace's function that torchlint could not follow, by its name, runs with gradients off.

    It may be in the file, in an importing file, or in a base class of the method's class.
    """
    if trace.root is None:
        return False
    name, own = trace.root.name, (model.tree,) if trace.called else ()
    if _may_be_called_without_gradients(name, model):
        return True
    bases = trace.root.owner.ancestors() if trace.root.owner is not None else ()
    inherited = (item.definitions.tree for item in bases if isinstance(item, definitions.ClassInfo))
    elsewhere = {tree for tree in inherited if tree is not model.tree}
    calls = [call for tree in (*own, *elsewhere) for call in tree.of_type(ast.Call)]
    return any(stands_without_gradients(call, model.tree) for call in calls if python_ast.called_name(call) == name)


def _may_be_called_without_gradients(name: str, model: Model) -> bool:
    """Whether an importing file may call a function of this name with gradients off.

    Names also decide about the callers in such a file.
    """
    others = [other for other in model.importers(name, (name.encode(),)) if other.tree is not model.tree]
    names = {name}.union(*(callers_of(name, other) for other in others)) - {"__init__", "forward", ""}
    return any(may_run_without_gradients(called, other.tree) for other in others for called in names)


def may_run_without_gradients(name: str, tree: python_tree.PythonTree) -> bool:
    """Whether a file that imports a function may call it with gradients off.

    The file switches gradients off globally, freezes something, calls the function in such a block, perhaps by
    another name, or passes it on to unknown code.
    """
    imported = [item for node in tree.of_type(ast.ImportFrom) for item in node.names]
    names = {name, *(item.asname for item in imported if item.name == name and item.asname is not None)}
    calls = list(tree.of_type(ast.Call))
    if any(python_ast.called_name(call) == "set_grad_enabled" and tree.stands_alone(call) for call in calls):
        return True
    if any(naming.STOPPING.search(python_ast.called_name(call)) for call in calls) or says_what_requires_grad(tree):
        return True
    called = {call.func for call in calls}
    read = (node for node in tree.of_type(ast.Name, ast.Attribute) if isinstance(node.ctx, ast.Load))
    if any(_last_name(node) in names and node not in called for node in read):
        return True
    return any(stands_without_gradients(call, tree) for call in calls if python_ast.called_name(call) in names)


def _last_name(context: ast.expr) -> str:
    called = context.func if isinstance(context, ast.Call) else context
    return python_ast.dotted(called).rpartition(".")[2]


def decides_what_requires_grad(model: Model, evaluation: ast.AST) -> bool:
    """Whether a file decides which parameters or inputs of an evaluation require gradients.

    It sets `requires_grad`, has models that compute gradients themselves, or imports networks that freeze themselves
    or code that switches gradients off. An input of another function that gets gradients, as in an attack, decides
    nothing here.
    """
    own = model.program.definitions
    function = model.tree.function_around(evaluation)
    return (
        any(
            model.tree.function_around(item) is function or not _gives_gradients(item, model.tree)
            for item in sayings(model.tree)
        )
        or not api.DIFFERENTIATING_PACKAGES.isdisjoint(map(api.package, own.imports.values()))
        or any(map(naming.FORCES.search, _names(model.tree.module)))
        or any(map(_takes_gradients, own.functions.values()))
        or any(map(_FREEZES_ITSELF.search, model.imported_texts))
        or any(map(_SWITCHES_OFF.search, model.imported_texts))
    )


def says_what_requires_grad(tree: python_tree.PythonTree) -> bool:
    """Whether a file sets `requires_grad` of parameters or inputs."""
    return any(True for _ in sayings(tree))


def _gives_gradients(saying: ast.AST, tree: python_tree.PythonTree) -> bool:
    """Whether a place switches gradients on for a variable that no loop draws from parameters: `x.requires_grad_()`."""
    parent = tree.parent(saying)
    if isinstance(saying, ast.Attribute) and isinstance(parent, ast.Assign):
        owner, value = saying.value, parent.value
    elif isinstance(saying, ast.Call) and isinstance(saying.func, ast.Attribute):
        owner, value = saying.func.value, next(iter(python_ast.arguments(saying)), ast.Constant(True))
    else:
        return False
    loops = (item for item in tree.ancestors(saying) if isinstance(item, (ast.For, ast.AsyncFor)))
    is_drawn = any(python_ast.dotted(owner) in map(python_ast.dotted, python_ast.walk(loop.target)) for loop in loops)
    return python_ast.is_literal(value, True) and not is_drawn


def mentions_flag(tree: python_tree.PythonTree) -> bool:
    """Whether a file reads or sets `requires_grad` of anything, or calls `requires_grad_`."""
    return any(node.attr.startswith("requires_grad") for node in tree.of_type(ast.Attribute))


def sayings(tree: python_tree.PythonTree) -> Iterator[ast.AST]:
    """The places where it does so."""
    told = (target for node in tree.of_type(ast.Assign) for target in node.targets)
    yield from (item for item in told if isinstance(item, ast.Attribute) and item.attr == "requires_grad")
    yield from (call for call in tree.of_type(ast.Call) if python_ast.called_name(call) == "requires_grad_")
    yield from (item for item in tree.of_type(ast.keyword) if item.arg in _SAYING)
    yield from (item for item in tree.of_type(ast.arg) if item.arg in _FREEZING_ALL)


def adapts_itself(module: values.Value) -> bool:
    """Whether a module, perhaps of another file, computes gradients in its `forward`: it adapts to its input."""
    info = module.info if isinstance(module, values.Module) else None
    forward = info.method("forward") if info is not None else None
    inside = python_ast.walk(forward.node) if forward is not None else ()
    return any(isinstance(item, ast.Call) and python_ast.called_name(item) in _TAKING_GRADIENTS for item in inside)


def may_be_chosen(model: Model, module: values.Value, given: Iterable[values.Value]) -> bool:
    """Whether a name chooses the class, `find_class(name)(size)` or `methods[name]()`, and one may take gradients.

    Some code takes gradients, or the object is given a network, which it may adapt to its task.
    """
    made = model.tree.own_node(values.resolved(module).site)
    while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute):
        made = made.func.value
    if not isinstance(made, ast.Call) or not isinstance(made.func, (ast.Call, ast.Subscript)):
        return False
    takes_gradients = isinstance(made.func, ast.Call) and model.mentions((b"autograd.grad(",))
    return takes_gradients or any(map(module_values.is_module_like, given))


def _takes_gradients(function: definitions.FunctionInfo) -> bool:
    """Whether a function is the `forward` of a module that needs gradients to compute its output."""
    return function.name == "forward" and function.is_method and speaks_of_gradients(function.node)


def _names(node: ast.AST) -> Iterator[str]:
    """All names in a node."""
    for item in python_ast.walk(node):
        if isinstance(item, ast.Name):
            yield item.id
        elif isinstance(item, ast.Attribute):
            yield item.attr
        elif isinstance(item, ast.keyword) and item.arg is not None:
            yield item.arg
