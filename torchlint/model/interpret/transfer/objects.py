"""Objects of the program's classes."""

from __future__ import annotations

import ast

from torchlint.model.arguments import Arguments
from torchlint.model.definitions import ClassInfo
from torchlint.model.interpret.machine import Part
from torchlint.model.values import Instance, Module, Optimizer, Value
from torchlint.pytorch import naming, table
from torchlint.pytorch.effects import Result

_PLAIN_BASES = frozenset("object ABC Generic Protocol Enum".split())
"""The base classes that classes other than modules may have."""
_MODULE_BASES = frozenset("Module LightningModule PreTrainedModel Sequential ModuleList MessagePassing GP".split())


class Objects(Part):
    """Creates objects."""

    def new_object(self, info: ClassInfo, node: ast.AST, parents: tuple[Value, ...]) -> Value:
        """An object of a local class, without running its `__init__`."""
        if is_optimizer_class(info):
            return self.state.stamp(Optimizer(node, info.name, parents, info))
        if is_module_class(info):
            return self.state.stamp(Module(node, info.name, parents, info))
        return self.state.stamp(Instance(node, info, parents, info.name))

    def instantiate(self, info: ClassInfo, arguments: Arguments, node: ast.AST) -> Value:
        """`SomeClass(...)`: an object, with `__init__` run on it if that gives more than the template."""
        made = self.new_object(info, node, arguments.all())
        self.observations.calls[made] = info.name, arguments, None
        if isinstance(made, Instance):
            init = info.method("__init__")
            if init is not None and self.state.can_inline(init):
                self.machine.inline(self.state.bound(init, made), arguments, node)
        return made


def is_module_class(info: ClassInfo) -> bool:
    """Whether objects of a class are `nn.Module`s: by a base of that name, or by a `forward` method."""
    bases = [item for item in info.ancestors() if isinstance(item, str)]
    if any(item.rpartition(".")[2] in _MODULE_BASES or item.startswith("torch.nn.") for item in bases):
        return True
    unknown = any(item.rpartition(".")[2] not in _PLAIN_BASES for item in bases)
    return unknown and info.method("forward") is not None


def is_optimizer_class(info: ClassInfo) -> bool:
    """Whether objects of a class are optimizers: by a base of PyTorch, or by a base's name."""
    bases = [item for item in info.ancestors() if isinstance(item, str)]
    return any(
        ((entry := table.function(item) or table.family(item)) is not None and entry.returns is Result.OPTIMIZER)
        or naming.is_optimizer_class(item.rpartition(".")[2])
        for item in bases
    )
