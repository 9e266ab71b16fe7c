"""The return value of a class's `forward`, and the parameters that it overwrites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torchlint.model.arguments import Flags
from torchlint.model.definitions import ClassInfo, FunctionInfo
from torchlint.model.events import Mutate, events_in
from torchlint.model.interpret.machine import Machine, Part
from torchlint.model.lineage import storages
from torchlint.model.values import Module, Parameter, Plain, Value, resolved


@dataclass(frozen=True)
class Forward:
    """The summary of a `forward`: its return value, and the operations that overwrite its parameters."""

    returned: Value | None
    overwritten: dict[str, str]
    kept: dict[str, Value]
    """The attributes that it sets on the object, with their values after the call."""


Options = frozenset[tuple[str, bool | str | Module | None]]
"""Attributes of a module with the flags and modules that its `__init__` received for them."""
_MOST = 16
"""The number of objects of a class whose `forward` is interpreted with the modules passed to them."""


class Forwards(Part):
    """Interprets `forward` aside from the program, once for each set of flags and of modules passed to `__init__`."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._forwards: dict[tuple[ClassInfo, Flags, Options], Forward | None] = {}
        self._assembled: dict[ClassInfo, set[Options]] = {}
        self._second_forwards: dict[ClassInfo, Forward] = {}
        self._options: dict[ClassInfo, dict[str, str]] = {}

    def options_of(self, module: Module) -> Options:
        """The attributes of a module that hold flags or modules passed to its `__init__`."""
        info, made = module.info, self.state.made_by(module)
        init = info.method("__init__") if info is not None else None
        if info is None or made is None or init is None:
            return frozenset()
        kept, arguments = self._kept_options(info), made[1]
        flags, modules = dict(arguments.flags(init)), arguments.modules(init)
        options = frozenset((name, flags[option]) for name, option in kept.items() if option in flags)
        parts: frozenset[tuple[str, Module]] = frozenset(
            (name, modules[option]) for name, option in kept.items() if option in modules
        )
        if not parts or not self._is_among_few(info, parts):
            return options
        for _, part in parts:
            self._show_aside(part)
        return options | parts

    def _show_aside(self, module: Value) -> None:
        """Make the call that creates a module known where `forward` is interpreted, with those of its own parts."""
        made, known = self.state.made_by(module), self.state.asides.calls
        if made is not None and module not in known:
            known[module] = made
            for part in map(resolved, made[1].all()):
                if isinstance(part, Module):
                    self._show_aside(part)

    def _is_among_few(self, info: ClassInfo, parts: Options) -> bool:
        """Whether only a few objects of a class differ in the modules passed to them; those that came first count."""
        assembled = self._assembled.setdefault(info, set())
        if len(assembled) < _MOST:
            assembled.add(parts)
        return parts in assembled

    def _kept_options(self, info: ClassInfo) -> dict[str, str]:
        """The attributes in which only `__init__` stores a parameter, each with the parameter."""
        if info not in self._options:
            template = self.machine.template(info)
            self._options[info] = {
                name: value.label
                for (owner, name), value in self.observations.stored.items()
                if owner is template and isinstance(value, Parameter)
                if info.writers(name) == {"__init__"}
            }
        return self._options[info]

    def forward_of(self, info: ClassInfo, flags: Flags = frozenset(), options: Options = frozenset()) -> Forward | None:
        """The summary of a class's `forward` for calls with these flags on an object built with these options.

        It holds for all other arguments. None if the `forward` is unknown.
        """
        forward, key = info.method("forward"), (info, flags, options)
        if forward is None or key in self._forwards or not self.state.can_inline(forward):
            return self._forwards.get(key)
        self._forwards[key] = None
        chosen = {
            name: option if isinstance(option, Module) else Plain(forward.node, option, name)
            for name, option in options
        }
        self._forwards[key] = self._interpreted(info, forward, flags, chosen)
        return self._forwards[key]

    def second_forward_of(self, info: ClassInfo) -> Forward | None:
        """The facts about a call of `forward` that starts with the attributes left by another call."""
        first, forward = self.forward_of(info), info.method("forward")
        if info not in self._second_forwards and first is not None and forward is not None and first.kept:
            self._second_forwards[info] = self._interpreted(info, forward, frozenset(), first.kept)
        return self._second_forwards.get(info)

    def _interpreted(
        self, info: ClassInfo, forward: FunctionInfo, flags: Flags, attributes: Mapping[str, Value]
    ) -> Forward:
        template = self.machine.template(info)
        asides = self.state.asides
        before = set(asides.interpreted)
        with self.machine.aside(forward, template, flags, attributes) as (frame, given):
            changes = [event for event in events_in(self.state.items) if isinstance(event, Mutate) and not event.path]
            returned = self.state.phi(forward.node, frame.returns) if frame.returns else None
            stored = {name: value for (owner, name), value in self.state.heap.items() if owner is template}
        overwritten = {
            name: change.how
            for change in reversed(changes)
            for name in forward.parameters[1:]
            if change.result in asides.in_place_results and given[name] in storages(change.target)
        }
        asides.interpreted &= before
        kept = {name: value for name, value in stored.items() if attributes.get(name) is not value}
        return Forward(returned, overwritten, kept)
