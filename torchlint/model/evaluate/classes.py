"""Classes of the program: their objects, what `__init__` stores in them, and what `forward` returns."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from torchlint.model.definitions import ClassInfo
from torchlint.model.evaluate.arguments import Arguments, Flags
from torchlint.model.evaluate.part import Part
from torchlint.model.events import Mutate, events_in
from torchlint.model.lineage import storages
from torchlint.model.values import Instance, Module, Optimizer, Parameter, Value, class_of
from torchlint.pytorch import naming, table
from torchlint.pytorch.effects import Result

_PLAIN_BASES = frozenset("object ABC Generic Protocol Enum".split())
"""What classes begin with that are no modules."""
_MODULE_BASES = frozenset("Module LightningModule PreTrainedModel Sequential ModuleList MessagePassing GP".split())


@dataclass(frozen=True)
class Forward:
    """What is known of a `forward`: the value that it returns, and the parameters that it overwrites, by what."""

    returned: Value | None
    overwritten: dict[str, str]


class Classes(Part):
    """Makes objects, and knows what their class says of them."""

    def __init__(self) -> None:
        self._templates: dict[ClassInfo, Value] = {}
        self._forwards: dict[tuple[ClassInfo, Flags, Flags], Forward | None] = {}
        self._options: dict[ClassInfo, dict[str, str]] = {}

    def is_module_class(self, info: ClassInfo) -> bool:
        """Whether objects of a class are `nn.Module`s: by a base of that name, or by having a `forward`."""
        bases = [item for item in info.ancestors() if isinstance(item, str)]
        if any(item.rpartition(".")[2] in _MODULE_BASES or item.startswith("torch.nn.") for item in bases):
            return True
        unknown = any(item.rpartition(".")[2] not in _PLAIN_BASES for item in bases)
        return unknown and info.method("forward") is not None

    def is_optimizer_class(self, info: ClassInfo) -> bool:
        """Whether objects of a class are optimizers: by a base of PyTorch, or of such a name."""
        bases = [item for item in info.ancestors() if isinstance(item, str)]
        return any(
            ((entry := table.function(item) or table.family(item)) is not None and entry.returns is Result.OPTIMIZER)
            or naming.is_optimizer_class(item.rpartition(".")[2])
            for item in bases
        )

    def new_object(self, info: ClassInfo, node: ast.AST, parents: tuple[Value, ...]) -> Value:
        """An object of a local class, its `__init__` not run."""
        if self.is_optimizer_class(info):
            return self.state.stamp(Optimizer(node, info.name, parents, info))
        if self.is_module_class(info):
            return self.state.stamp(Module(node, info.name, parents, info))
        return self.state.stamp(Instance(node, info, parents, info.name))

    def template(self, info: ClassInfo) -> Value:
        """The object that stands for any instance of a class, its attributes as `__init__` stores them."""
        known = self._templates.get(info)
        if known is None:
            known = self._templates[info] = self._new_template(info)
            self._run_init(info, known)
        return known

    def is_template(self, value: Value) -> bool:
        """Whether a value stands for any object of a class, and of its subclasses."""
        info = class_of(value)
        return info is not None and self._templates.get(info) is value

    def _new_template(self, info: ClassInfo) -> Value:
        if self.is_module_class(info):
            return Module(info.node, info.name, (), info)
        return Instance(info.node, info, (), "self")

    def _run_init(self, info: ClassInfo, template: Value) -> None:
        """Interpret `__init__` once, aside from the program, for what it stores."""
        init = info.method("__init__")
        if init is None or not self.functions.may_nest(init):
            return
        with self.functions.aside(init, template):
            for (owner, name), value in self.state.heap.items():
                self.observations.stored[owner, name] = value

    def options_of(self, module: Module) -> Flags:
        """The attributes of a module that hold what its `__init__` was given, where that is a flag."""
        info, made = module.info, self.observations.calls.get(module)
        init = info.method("__init__") if info is not None else None
        if info is None or made is None or init is None:
            return frozenset()
        flags, kept = dict(made[1].flags(init)), self._kept_options(info)
        return frozenset((name, flags[option]) for name, option in kept.items() if option in flags)

    def _kept_options(self, info: ClassInfo) -> dict[str, str]:
        """The attributes in which `__init__`, and nothing else, keeps a parameter, and which one."""
        if info not in self._options:
            template = self.template(info)
            self._options[info] = {
                name: value.label
                for (owner, name), value in self.observations.stored.items()
                if owner is template and isinstance(value, Parameter)
                if info.writers(name) == {"__init__"}
            }
        return self._options[info]

    def forward_of(self, info: ClassInfo, flags: Flags = frozenset(), options: Flags = frozenset()) -> Forward | None:
        """What `forward` of a class returns and overwrites where it is called with these flags, and its object made
        with these options, whatever else they are given; None where it is unknown."""
        forward, key = info.method("forward"), (info, flags, options)
        if forward is None or key in self._forwards or not self.functions.can_inline(forward):
            return self._forwards.get(key)
        self._forwards[key] = None
        before = set(self.observations.interpreted)
        with self.functions.aside(forward, self.template(info), flags, options) as (frame, given):
            changes = [event for event in events_in(self.state.items) if isinstance(event, Mutate) and not event.path]
            returned = self.state.phi(forward.node, frame.returns) if frame.returns else None
        overwritten = {
            name: change.how
            for change in reversed(changes)
            for name in forward.parameters[1:]
            if change.result in self.observations.in_place_results and given[name] in storages(change.target)
        }
        self.observations.interpreted &= before
        self._forwards[key] = Forward(returned, overwritten)
        return self._forwards[key]

    def instantiate(self, info: ClassInfo, arguments: Arguments, node: ast.AST) -> Value:
        """`SomeClass(...)`: an object, with `__init__` run on it where that says more than the template."""
        made = self.new_object(info, node, arguments.all())
        self.observations.calls[made] = info.name, arguments, None
        if isinstance(made, Instance):
            init = info.method("__init__")
            if init is not None and self.functions.can_inline(init):
                self.functions.inline(self.functions.bound(init, made), arguments, node)
        return made
