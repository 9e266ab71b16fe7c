"""Losses: the values that PyTorch's loss functions and modules compute."""

from __future__ import annotations

import ast

from torchlint.model.definitions import defaults_of
from torchlint.model.module_values import is_as_made
from torchlint.model.values import Module, ModuleOutput, Tensor, Value, resolved
from torchlint.pytorch import losses, operators
from torchlint.syntax.python_ast import called_name, dotted, walk
from torchlint.syntax.python_tree import PythonTree


def loss_function(value: Value) -> str:
    """The PyTorch function, or the function of its module, that computes a value: `cross_entropy`; else empty."""
    if not isinstance(value, Tensor):
        return ""
    if not isinstance(value, ModuleOutput):
        return value.op if value.op in losses.OPERATORS else ""
    module = resolved(value.parents[0])
    if not isinstance(module, Module) or module.info is not None:
        return ""
    return losses.FUNCTIONS.get(module.name.removeprefix("torch.nn."), "")


def operands(value: Tensor) -> tuple[Value, ...]:
    """The inputs of a loss: its input, and its target if that is known."""
    return value.parents[1:] if isinstance(value, ModuleOutput) else value.parents


def takes_one_hot(value: Tensor) -> bool:
    """Whether the target of a loss is the integer result of `one_hot`: `cross_entropy` raises."""
    target = resolved(operands(value)[1]) if len(operands(value)) > 1 else None
    return isinstance(target, Tensor) and target.op == operators.ONE_HOT


def is_mean(value: Value, tree: PythonTree) -> bool:
    """Whether a value is a loss averaged over its input, as far as the call shows."""
    call = _call_of(value, tree)
    return call is not None and all(_is_harmless(item) for item in call.keywords)


def is_mean_by_default(value: Value, tree: PythonTree) -> bool:
    """Whether a loss is averaged, or gets the reduction of its own loss module, whose default is the mean."""
    call = _call_of(value, tree)
    return call is not None and all(
        _is_harmless(item) or (item.arg == "reduction" and _is_mean(_default_of(item.value, tree)))
        for item in call.keywords
    )


def _default_of(node: ast.expr, tree: PythonTree) -> ast.expr | None:
    """The default of the parameter that `__init__` stores in an attribute of `self`, if no call in the file sets it."""
    owner = next((item for item in tree.ancestors(node) if isinstance(item, ast.ClassDef)), None)
    if not isinstance(node, ast.Attribute) or dotted(node.value) != "self" or owner is None:
        return None
    init = next((item for item in owner.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"), None)
    if init is None or any(_sets(call, owner.name, node.attr) for call in tree.of_type(ast.Call)):
        return None
    stores = [
        item.value
        for item in walk(owner)
        if isinstance(item, ast.Assign) and any(dotted(target) == f"self.{node.attr}" for target in item.targets)
    ]
    handed = [
        item.value
        for call in walk(init)
        if isinstance(call, ast.Call) and called_name(call) == "__init__"
        for item in call.keywords
        if item.arg == node.attr
    ]
    given = stores or handed
    name = given[0].id if len(given) == 1 and isinstance(given[0], ast.Name) else ""
    return defaults_of(init).get(name)


def _sets(call: ast.Call, owner: str, attribute: str) -> bool:
    """Whether a call creates an object of a class with this argument, or with an unknown one."""
    return called_name(call) == owner and any(item.arg in (attribute, None) for item in call.keywords)


def _is_mean(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value == "mean"


def is_sum(value: Value, tree: PythonTree) -> bool:
    """Whether a value is a loss summed over its input: `reduction="sum"`."""
    call = _call_of(value, tree)
    return call is not None and stated_reduction(call) == "sum"


def stated_reduction(call: ast.Call) -> str:
    """The reduction that a call states as a text: "none", "sum" or "mean".

    The old arguments `size_average` and `reduce` override it, so that a call with one of them states nothing.
    """
    given = {item.arg: item.value for item in call.keywords}
    old = [given[name] for name in losses.OVERRIDING if name in given]
    if None in given or not all(isinstance(item, ast.Constant) and item.value is None for item in old):
        return ""
    stated = given.get("reduction")
    return stated.value if isinstance(stated, ast.Constant) and isinstance(stated.value, str) else ""


def _call_of(value: Value, tree: PythonTree) -> ast.Call | None:
    """The call that states the reduction of a loss by keyword: that of the function, or that of the module's class."""
    function = loss_function(value)
    if function not in losses.AVERAGED or not isinstance(value, Tensor):
        return None
    module = resolved(value.parents[0]) if isinstance(value, ModuleOutput) else None
    if module is not None and not is_as_made(module):
        return None
    site = module.site if module is not None else value.site
    call = tree.node(site)
    if not isinstance(call, ast.Call) or any(isinstance(item, ast.Starred) for item in call.args):
        return None
    positional = losses.POSITIONAL.get(function, 0) if module is not None else 2
    return call if len(call.args) <= positional else None


def _is_harmless(keyword: ast.keyword) -> bool:
    """Whether an argument keeps the mean reduction."""
    if keyword.arg == "reduction":
        return _is_mean(keyword.value)
    return keyword.arg is not None and keyword.arg not in losses.REDUCING
