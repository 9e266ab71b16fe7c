"""The modules whose parameters an optimizer holds, from its arguments."""

from __future__ import annotations

from collections.abc import Iterable

from torchlint.model.module_values import is_module_like
from torchlint.model.utilities import Kind, is_kind
from torchlint.model.values import (
    Attribute,
    Container,
    Dict,
    Leaf,
    Module,
    ModuleParameter,
    Optimizer,
    Parameter,
    Parameters,
    Phi,
    Plain,
    Tensor,
    Unknown,
    UnknownObject,
    Value,
    inputs_of,
    resolved,
)
from torchlint.pytorch import operators


def parameters_of(optimizer: Value) -> tuple[set[Value], bool]:
    """The modules and leaves whose parameters an optimizer holds, and whether the list is complete."""
    found, known = sources_of(item for option in inputs_of(optimizer) for item in _given(option))
    return found, known and not any(option.has_use("add_param_group") for option in inputs_of(optimizer))


def sources_of(parameters: Iterable[Value | None]) -> tuple[set[Value], bool]:
    """The modules and leaves that own parameters, and whether the list is complete; None if not known."""
    found: set[Value] = set()
    known = True
    stack = list(parameters)
    seen: set[Value] = set()
    while stack:
        item = stack.pop()
        if item is None:
            known = False
            continue
        if item in seen:
            continue
        seen.add(item)
        item = resolved(item)
        if isinstance(item, Phi) and item.is_keyed:
            known = False  # one of several, it is unknown which
            continue
        if isinstance(item, Parameters):
            stack.extend(resolved(parent) for parent in item.parents)
        elif isinstance(item, Container):
            group = item.part("params") if isinstance(item, Dict) else None
            stack.extend(item.elements() if group is None else [group])  # a group has settings, too
        elif isinstance(item, (Phi, ModuleParameter)):
            stack.extend(item.parents)
        elif isinstance(item, Module) or (isinstance(item, Tensor) and item.leaf):
            found.add(item)
        elif isinstance(item, Tensor) and item.op == operators.ADD:
            stack.extend(item.parents)
        elif isinstance(item, Unknown) and (is_module_like(item) or isinstance(item, (Parameter, UnknownObject))):
            found.add(item)
        elif not isinstance(item, Plain):
            known = False
    return found, known and bool(found)


def _given(optimizer: Value) -> tuple[Value | None, ...]:
    """The values an optimizer was built from; `critic.optimizer` holds the parameters of `critic`. None: not known."""
    if isinstance(optimizer, Optimizer):
        return optimizer.parents
    if isinstance(optimizer, Leaf):
        return (optimizer,)  # the code updates it by hand
    if is_kind(optimizer, Kind.ENGINE):
        inner = optimizer.part("optimizer")
        return _given(resolved(inner)) if inner is not None else (optimizer.part("model_parameters"),)
    if isinstance(optimizer, Attribute) and is_module_like(optimizer.parents[0]):
        owner = resolved(optimizer.parents[0])
        if getattr(owner, "info", None) is None:  # otherwise a base class in another file stores it
            return optimizer.parents
    return (None,)


def surely_optimizer(value: Value) -> bool:
    """Whether a value is an optimizer by its class or by the methods called on it; its name does not count."""
    if isinstance(value, Phi):
        return all(isinstance(item, Optimizer) for item in inputs_of(value))
    if isinstance(value, Optimizer) or is_kind(value, Kind.ENGINE):
        return True
    return isinstance(value, Unknown) and value.has_use("zero_grad")
