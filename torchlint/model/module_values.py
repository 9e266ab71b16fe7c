"""Modules and the outputs of modules, recognized by known facts about a value or by its name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchlint.model.lineage import result_of_call
from torchlint.model.parameterless import is_parameterless
from torchlint.model.values import (
    Answer,
    CallResult,
    Component,
    Container,
    External,
    Function,
    Instance,
    Module,
    ModuleOutput,
    Optimizer,
    Phi,
    Plain,
    Super,
    Tensor,
    Unknown,
    UnknownObject,
    Value,
    inputs_of,
    resolved,
)
from torchlint.pytorch import api, naming, table
from torchlint.pytorch.autograd_table import MODULES_WITHOUT_PARAMETERS
from torchlint.pytorch.effects import RegistersHook

BY_HAND = "backward by hand"
"""A use: a method computes its own gradients, `delta = layer.backward(delta)`, and the object is no PyTorch module."""
GIVEN_TO_FORWARD = "given to `forward`"
"""A use: a parameter of a module's `forward`, which may receive the output of another module."""
_HOOKS = table.methods_with(RegistersHook)
_CHANGING = (
    "__setattr__", "__setitem__", "append", "extend", "insert", "add_module", "pop", "register_module",
    "register_forward_hook", "register_forward_pre_hook",
)  # fmt: skip


def is_module(value: Value) -> Answer:
    """Whether a value is an `nn.Module`: by class, by its use as one, or by its origin.

    A copy is what it copies. A list of networks may hold copies of its own elements, so the search marks its way.
    """
    waiting, seen = [resolved(value)], set[Value]()
    answers = set[Answer]()
    is_one = True
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        if isinstance(current, Phi):
            is_one = False
            waiting.extend(item for item in current.parents if not isinstance(item, Phi))
        elif (copied := _copied(current)) is not None:
            waiting.append(resolved(copied))
        else:
            answers.add(_is_module(current))
    if answers == {Answer.YES}:
        return Answer.YES
    return answers.pop() if is_one and answers else Answer.UNKNOWN


def _copied(value: Value) -> Value | None:
    """The object that a call to `copy.deepcopy` copies."""
    made_by = value.callee if isinstance(value, Unknown) else None
    is_copy = isinstance(made_by, External) and made_by.name == "copy.deepcopy"
    return value.parents[0] if is_copy and value.parents else None


def _is_module(value: Value) -> Answer:
    """Whether a value with one meaning, which is no copy, is an `nn.Module`."""
    if isinstance(value, Module):
        return Answer.YES
    if isinstance(value, Instance) and any(
        value.has_use(name) and value.info.method(name) is None for name in api.MODULE_EVIDENCE
    ):
        return Answer.YES  # of an unknown base
    if isinstance(value, Unknown):
        made_by = value.callee
        if isinstance(made_by, External) and api.gives_no_tensor(made_by.name):
            return Answer.NO
        if isinstance(made_by, External) and api.lost_by_model(made_by.name) is not None:
            return Answer.YES  # `torchvision.models.resnet50()`
        if value.has_use(BY_HAND):
            return Answer.UNKNOWN
        if value.has_use(*api.MODULE_EVIDENCE):
            return Answer.YES
        if value.label and naming.MODULE.search(value.label):
            return Answer.UNKNOWN
    if isinstance(value, (Plain, Tensor, Optimizer, Function, Container)):
        return Answer.NO
    return Answer.UNKNOWN


def is_module_like(item: Value) -> bool:
    """Whether a value is a module, may be one by its name, or is an object of unknown class behind `super()`."""
    item = resolved(item)
    if not isinstance(item, Unknown):
        return is_module(item) is Answer.YES
    call = result_of_call(item)
    receiver = call.parents[:1] if call is not None and not isinstance(call.callee, External) else ()
    makers = (call.callee, *receiver) if isinstance(call, CallResult) else ()
    if any(maker is not None and is_module_like(maker) and not naming.is_class_name(maker.label) for maker in makers):
        return False  # a module, and its methods, return tensors; a method of a class creates a module
    return is_module(item) is Answer.YES or isinstance(item, Super) or bool(naming.MODULE.search(item.label))


def has_parameters(module: Value) -> bool:
    """Whether a module has parameters: known for PyTorch's and plain classes, assumed for others.

    A class without any has those of the modules that it is built with. The name of an unknown class may tell that it
    only arranges points.
    """
    module = resolved(module)
    if isinstance(module, Phi):
        return any(map(has_parameters, inputs_of(module)))
    if isinstance(module, Module) and module.info is None:
        name = module.name.rpartition(".")[2]
        if name in ("Sequential", "ModuleList"):
            return any(has_parameters(item) for item in module.parents) or not module.parents
        return name not in MODULES_WITHOUT_PARAMETERS and not naming.ARRANGING.search(name)
    if isinstance(module, UnknownObject) and naming.ARRANGING.search(module.class_name):
        return False
    if not isinstance(module, Module) or module.info is None or not is_parameterless(module.info):
        return True
    return any(isinstance(resolved(item), Module) and has_parameters(item) for item in module.parents)


def is_as_made(module: Value) -> bool:
    """Whether a module still does what its constructor set up, as far as torchlint knows.

    No code adds parts later, sets attributes, or registers a hook that changes the result.
    """
    return not module.has_use(*_CHANGING)


def called_like_module(callee: Value) -> bool:
    """Whether the callee is a module, by known facts or by its name."""
    if is_module(callee) is Answer.YES:
        return True
    return not isinstance(callee, (External, Function)) and naming.is_called_as_module(callee.label)


def is_forward(value: Value) -> bool:
    """Whether a value is the output of a module, by known facts or by its name; an input is not."""
    if isinstance(value, ModuleOutput):
        return True
    if not isinstance(value, Unknown) or value.callee is None or not called_like_module(value.callee):
        return False
    return is_module(value.callee) is Answer.YES or not any(is_module(item) is Answer.YES for item in given_to(value))


def given_to(forward: Value) -> list[Value]:
    """The inputs of a module for an output, without the module itself."""
    if isinstance(forward, Tensor):
        return list(forward.parents[1:])
    callee = forward.callee if isinstance(forward, Unknown) else None
    owners = {resolved(item) for item in callee.parents} if callee is not None else set()
    return [item for item in forward.parents if resolved(item) not in owners]


def is_hooked(module: Value) -> bool:
    """Whether hooks may change a module's inputs or outputs."""
    return any(item.has_use(*_HOOKS) for item in inputs_of(module))


def modules_of(graph: Iterable[Value]) -> Iterator[Value]:
    """The modules, known or recognized by name, that produced the values of a graph."""
    for value in graph:
        if isinstance(value, ModuleOutput):
            yield resolved(value.parents[0])
        elif isinstance(value, Unknown) and value.callee is not None and is_forward(value):
            yield resolved(value.callee)


def returned_by(value: ModuleOutput) -> Value | None:
    """The value the `forward` returns for this output; None if that is not known."""
    return _unless_hooks_fill_it(value.body)


def returned_parts(value: Tensor) -> list[Value]:
    """The part of each `return` of a `forward` that a value takes from the result; empty if one is not known."""
    whole = value.parents[0]
    if isinstance(whole, Component):
        bodies = returned_parts(whole)
    else:
        bodies = [whole.body] if isinstance(whole, ModuleOutput) and whole.body is not None else []
    key = whole.key_of(value)
    parts = [_part_of(item, key) for body in bodies for item in inputs_of(body)]
    known = [item for item in parts if item is not None]
    return known if len(known) == len(parts) else []


def _part_of(returned: Value, key: object) -> Value | None:
    if not isinstance(returned, Container):
        return None
    return _unless_hooks_fill_it(returned.element_at(key) if isinstance(key, int) else returned.part(key))


def _unless_hooks_fill_it(returned: Value | None) -> Value | None:
    """The returned value, unless it is an empty container that hooks may fill."""
    return None if isinstance(returned, Container) and not returned.elements() else returned
