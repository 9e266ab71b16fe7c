"""Modules that are meant to learn: new ones, neither loaded, evaluated nor frozen, and losses with parameters."""

from __future__ import annotations

import ast

from torchlint.lazy_pattern import LazyPattern
from torchlint.model import events, lineage, module_values, values
from torchlint.model.definitions import ClassInfo
from torchlint.model.frozen import Frozen
from torchlint.model.observations import Placed
from torchlint.model.program import Program
from torchlint.pytorch import stateful_modules
from torchlint.syntax.python_ast import dotted, walk

_FIXED = LazyPattern(
    r"(?i)random|fixed|frozen|target|teacher|ema|momentum|ref|pretrain|vgg|lpips|percept|loss|criterion|metric"
)
"""Names of networks that are not meant to learn, or of losses."""
_LOSS = LazyPattern(r"(?i)loss|crit(?!ic)|arc_?face|cos_?face|center|margin|metric")
"""Names of losses that may have parameters."""
_LOSS_CLASS = LazyPattern(r"(Loss|Criterion)$")
"""Names of their classes, whatever the object is called."""
GIVING_WEIGHTS = ("load_state_dict", "requires_grad_", "apply", "load", "freeze")
"""Methods by which a module may get its weights, or keep them."""
_SETTING_MODE = ("train", "eval")
"""Methods by which a part of a module may be set apart."""
_FIXING = frozenset("weight bias data no_grad requires_grad parameters buffers modules".split()) | {*GIVING_WEIGHTS}
"""Attributes with which a class gives its layers fixed weights."""
_OWN = frozenset({"self.weight", "self.bias", "self.data"})
"""Attributes of a loss that are not those of a layer."""


class Learners:
    """Answers about single modules, and about the parts of a module that its `forward` uses."""

    def __init__(self, program: Program, frozen: Frozen) -> None:
        self.program = program
        self.frozen = frozen

    def may_be_updated_by_hand(self, placed: Placed, step: events.Step) -> bool:
        """Whether a new parameter is computed with gradients, or in each iteration by an unknown function."""
        made_of = lineage.ancestry([placed.value])
        if any(isinstance(item, values.Gradient) or getattr(item, "op", "") == "grad" for item in made_of):
            return True
        is_repeated = not set(placed.loops).isdisjoint(step.loops)
        return is_repeated and any(isinstance(item, values.CallResult) for item in made_of)

    def losses_in(self, whole: values.Value) -> list[values.Value]:
        """The losses with parameters that a module is made with, and that its `forward` uses."""
        info, made = values.class_of(whole), self.program.tree.node(whole.site)
        init = info.method("__init__") if info is not None else None
        if info is None or init is None or not isinstance(made, ast.Call) or made.keywords:
            return []
        given = dict(zip(init.parameters[1:], whole.parents, strict=False))
        stored = {name: values.resolved(value) for name, value in self.program.attributes_of(info).items()}
        names = {value.label: name for name, value in stored.items() if isinstance(value, values.Parameter)}
        parts = (
            values.resolved(given[label]) for label in names.keys() & given.keys() if surely_uses(whole, names[label])
        )
        return [item for item in parts if self.has_own_parameters(item)]

    def parts_in(self, whole: values.Value) -> dict[str, values.Value]:
        """The layers that the `forward` of a program's module, or of a chain of layers, surely uses."""
        info = values.class_of(whole)
        if info is None:
            return {f"{whole.label}[{place}]": values.resolved(item) for place, item in enumerate(whole.parents)}
        stored = self.program.attributes_of(info)
        return {name: values.resolved(value) for name, value in stored.items() if surely_uses(whole, name)}

    def is_made_to_learn(
        self, module: values.Value, name: str = "", uses: tuple[str, ...] = (*GIVING_WEIGHTS, *_SETTING_MODE)
    ) -> bool:
        """Whether a module is new, neither loaded, evaluated nor frozen, and by its name meant to learn."""
        if not isinstance(module, values.Module):
            return False
        name = name or name_of(module)
        is_known = module.name.startswith("torch.nn.") if module.info is None else self._is_of_layers(module)
        return (
            not module.has_use(*uses)
            and is_known
            and module_values.is_as_made(module)
            and module_values.has_parameters(module)
            and bool(name)
            and (not _FIXED.search(name) or self.has_own_parameters(module))
            and not self.frozen.may_be_partly(module)
        )

    def _is_of_layers(self, module: values.Module) -> bool:
        """Whether a class of the program creates only PyTorch layers: none comes with weights."""
        parts = self._stored_in(module)
        layers = [item for item in parts if isinstance(item, values.Module)]
        is_unclear = any(isinstance(item, values.Unknown) for item in parts)
        return (bool(layers) and not is_unclear) or self.has_own_parameters(module)

    def _stored_in(self, module: values.Value) -> list[values.Value]:
        info = values.class_of(module)
        stored = self.program.attributes_of(info) if info is not None else {}
        return [item for value in stored.values() for item in values.inputs_of(value)]

    def has_own_parameters(self, module: values.Value) -> bool:
        """Whether a loss of the program creates parameters or layers, and holds no module but new layers of PyTorch."""
        parts = self._stored_in(module) if isinstance(module, values.Module) else []
        own: list[values.Value] = [item for item in parts if isinstance(item, values.Leaf) and item.leaf]
        info = values.class_of(module)
        if info is not None and not own and not _sets_weights(info):
            own = [item for item in parts if _is_layer(item) and _has_weights(item)]
        others = [item for item in parts if module_values.is_module_like(item) and not _is_layer(item)]
        is_alone = bool(own) and not others
        is_loss = info is not None and _LOSS_CLASS.search(info.name) is not None
        return is_alone and (is_loss or _LOSS.search(name_of(module)) is not None)


def name_of(module: values.Value) -> str:
    """The name of a module; of one that is made in a call, that of its class."""
    info = values.class_of(module)
    return module.label or (info.name if info is not None else "")


def surely_uses(owner: values.Value, key: object) -> bool:
    """Whether an object surely uses an attribute: its class stores it, or reads it in `forward`, or is unknown."""
    info = values.class_of(owner)
    if info is None or not isinstance(key, str):
        return True
    if "__init__" in info.writers(key):
        return True
    forward = info.method("forward")
    if forward is None or not forward.parameters or "forward" in info.writers(key):
        return False
    return f"{forward.parameters[0]}.{key}" in {dotted(node) for node in walk(forward.node)}


def _is_layer(module: values.Value) -> bool:
    is_known = isinstance(module, values.Module) and module.info is None and module.name.startswith("torch.nn.")
    return is_known and module_values.is_as_made(module)


def _has_weights(layer: values.Value) -> bool:
    """Whether a layer of PyTorch, or one in a list of layers, has weights by its kind."""
    layer = values.resolved(layer)
    if isinstance(layer, values.Module) and layer.name.rpartition(".")[2] in stateful_modules.WEIGHTED:
        return True
    return isinstance(layer, (values.Module, values.Container)) and any(map(_has_weights, lineage.made_of(layer)))


def _sets_weights(info: ClassInfo) -> bool:
    """Whether a class may give its layers fixed weights, or use them without gradients."""
    read = (node for node in walk(info.node) if isinstance(node, ast.Attribute) and node.attr in _FIXING)
    return any(dotted(node) not in _OWN for node in read)
