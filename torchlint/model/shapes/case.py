"""One case: the types of values, with one choice for each value that has several meanings."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from torchlint.model.shapes.batches import batched_type
from torchlint.model.shapes.scope import MAX_DEPTH, ROOT, Scope
from torchlint.model.shapes.sizes import Known, Size, Symbol
from torchlint.model.shapes.tensor_type import ANY, Choice, Evaluated, Misfit, TensorType
from torchlint.model.shapes.unsure import is_unsure
from torchlint.model.values import (
    Attribute,
    Instance,
    Module,
    ModuleOutput,
    Phi,
    Tensor,
    Unknown,
    Value,
    meanings,
    resolved,
)
from torchlint.pytorch import shapes as table

if TYPE_CHECKING:
    from torchlint.model.arguments import Arguments
    from torchlint.model.definitions import ClassInfo, Definitions
    from torchlint.model.program import Program
    from torchlint.model.utilities import DataLoader
    from torchlint.syntax.python_ast import Site
    from torchlint.syntax.python_tree import PythonTree

MAX_NESTED = 40
"""Maximum depth of nested values per lookup; results of earlier lookups are cached."""
Place = tuple[Value, Scope]
_CONVERTING = ("to", "type", "float", "double", "half", "bfloat16")


class Stop(Exception):
    """An operation has no result of its own: it raises, or another choice has to come first."""

    def __init__(self, result: Misfit | Choice) -> None:
        super().__init__()
        self.result = result


class Operations(Protocol):
    """The interface of the module `operations`, as `Case` uses it."""

    def type_of(self, case: Case, value: Tensor, scope: Scope, /) -> TensorType:
        """The type of the result of an operator, a layer or a module."""

    def part_of_extremum(self, case: Case, owner: Value, part: int, scope: Scope, /) -> TensorType | None:
        """The values, or the indices, of `max(dim)`; None for anything else."""


class Case:
    """Answers under these choices; if one more is needed, that is the answer."""

    def __init__(
        self,
        program: Program,
        choices: dict[Hashable, Hashable],
        scopes: dict[Hashable, Scope],
        operations: Operations,
    ) -> None:
        self.program = program
        self.operations = operations
        self.observations = program.observations
        self._choices = choices
        self._scopes = scopes
        self._known: dict[Place, Evaluated] = {}
        self._nested = 0
        self._unsure: dict[Definitions, bool] = {}
        self.batches_as_time: dict[Site, tuple[Module, DataLoader | None]] = {}
        """Calls of layers that treat samples of a batch as steps of a sequence, with the layer and a loader."""
        self.sample_counts: set[Known] = set()
        """The first sizes of the batches that convolutions receive."""

    def evaluate(self, value: Value, scope: Scope = ROOT) -> Evaluated:
        """The type of a value, the reason why it cannot be computed, or the choice to make first."""
        value = resolved(value)
        place = (value, scope)
        known = self._known.get(place)
        if known is not None:
            return known
        if self._nested >= MAX_NESTED:
            return ANY
        self._known[place] = ANY  # a value that depends on itself is unknown
        self._nested += 1
        try:
            found: Evaluated = self._evaluate(value, scope)
        except Stop as stop:
            found = stop.result
        self._nested -= 1
        self._known[place] = found
        return found

    def type_of(self, value: Value, scope: Scope) -> TensorType:
        """The type of a value; raises `Stop` if it has none."""
        found = self.evaluate(value, scope)
        if isinstance(found, TensorType):
            return found
        raise Stop(found)

    def _evaluate(self, value: Value, scope: Scope) -> TensorType:
        chosen = self._choices.get((value, scope))
        if isinstance(chosen, TensorType):
            return chosen
        if isinstance(value, Phi):
            found = self.chosen(value, scope)
            return self.type_of(found, scope) if found is not None else ANY
        if isinstance(value, Unknown):
            return self._of_unknown(value, scope)
        if isinstance(value, Tensor):
            return self.operations.type_of(self, value, scope)
        return ANY

    def _of_unknown(self, value: Unknown, scope: Scope) -> TensorType:
        """The type of a value not known otherwise; `x.float()` is the value itself, so its element type is not sure."""
        type_ = self._unconverted(value, scope)
        return type_.with_dtype(None) if value.has_use(*_CONVERTING) else type_

    def _unconverted(self, value: Unknown, scope: Scope) -> TensorType:
        bound = scope.get(value)
        if bound is not None and isinstance(bound[0], Value):
            return self.type_of(bound[0], bound[1])
        owner = resolved(value.parents[0]) if isinstance(value, Attribute) and value.parents else None
        if isinstance(owner, Tensor) and value.label in ("values", "indices"):
            return self.operations.part_of_extremum(self, owner, int(value.label == "indices"), scope) or ANY
        return batched_type(self.program, value, scope, self.type_of, self._inside_object)

    def chosen(self, phi: Phi, scope: Scope) -> Value | None:
        """The value that a Phi has in this case.

        None if it does not merge branches, but carries values between iterations, or is the element of a list.
        """
        if phi.is_loop or phi.source is not None:
            return None
        inputs = tuple(meanings(phi))
        chosen = self._choices.get((phi, scope))
        if isinstance(chosen, Value):
            return chosen
        raise Stop(Choice((phi, scope), inputs))

    def source(self, value: Value, scope: Scope) -> Place:
        """The value, with its scope, whose shape a value surely has: the input of an activation."""
        seen = set[Place]()
        while True:
            value = resolved(value)
            if (value, scope) in seen:
                return value, scope  # a loop gives it to itself
            seen.add((value, scope))
            bound = scope.get(value)
            chosen = self._choices.get((value, scope))
            if bound is not None and isinstance(bound[0], Value):
                value, scope = bound[0], bound[1]
            elif isinstance(value, Phi) and isinstance(chosen, Value):
                value = chosen
            elif isinstance(value, Tensor) and (source := self._same_shape(value)) is not None:
                value = source
            else:
                return value, scope

    def _same_shape(self, value: Tensor) -> Value | None:
        transfer = table.OPERATORS.get(value.op)
        if transfer is not None and transfer.kind in (table.SAME, table.SAME_AT) and value.parents:
            return value.parents[0]
        layer = self.layer(resolved(value.parents[0])) if isinstance(value, ModuleOutput) else None
        return value.parents[1] if layer is not None and layer.kind == table.SAME and len(value.parents) > 1 else None

    def layer(self, module: Value) -> table.Transfer | None:
        """The known behavior of a layer of PyTorch."""
        if not isinstance(module, Module) or module.info is not None:
            return None
        return table.LAYERS.get(module.name.removeprefix("torch.nn."))

    def choose_rank(self, value: Value, scope: Scope, ranks: Sequence[int], type_: TensorType) -> TensorType:
        """The type of a value with one of these numbers of dimensions; each number is a case."""
        place = self.source(value, scope)
        if place in self._choices or not isinstance(self.evaluate(*place), TensorType):
            return type_
        options = tuple(self._with_rank(place, rank, type_) for rank in ranks if rank >= len(type_.sizes))
        if not options:
            return type_
        raise Stop(Choice(place, options))

    def _with_rank(self, place: Place, rank: int, type_: TensorType) -> TensorType:
        unknown = range(rank - len(type_.sizes))
        leading = tuple(self.dimension(place, index) for index in unknown)
        return replace(type_, sizes=(*leading, *type_.sizes), is_open=False)

    def dimension(self, place: Place, index: int) -> Size:
        """The unknown size of a dimension, as a symbol."""
        return Size.symbol(Symbol(place, index, not place[0].loops))

    def arguments_of(self, value: Value) -> Arguments | None:
        """The arguments that created a value, unless a star passes some: their number is unknown."""
        made = self.observations.calls.get(value)
        node = self.program.tree.node(value.site) if made is not None and value.site is not None else None
        starred = isinstance(node, ast.Call) and any(isinstance(item, ast.Starred) for item in node.args)
        return None if made is None or starred else made[1]

    def made_with(self, module: Value, layer: table.Transfer) -> dict[str, Value]:
        """The arguments of a layer's constructor, by parameter; empty if some are not known."""
        seen = 0
        while module not in self.observations.calls and module.parents and seen < 3:
            module, seen = resolved(module.parents[0]), seen + 1  # a copy of another
        made = self.arguments_of(module)
        if made is None or made.starred or not isinstance(module, Module):
            return {}
        return made.bind(layer.parameters).values

    # -- modules of the program -----------------------------------------------------------------------

    def inside(self, call: Tensor, module: Module, scope: Scope) -> Scope | None:
        """The scope in which the `forward` of a module of this file runs at a call."""
        forward = module.info.method("forward") if module.info is not None else None
        made = self.arguments_of(call)
        if scope.depth >= MAX_DEPTH or forward is None or made is None or module.info is None:
            return None
        if module.info.definitions is not self.program.definitions and self._is_unsure(module.info.definitions):
            return None
        known = self._scopes.get((call, module, scope))
        if known is None:
            known = self._scopes[call, module, scope] = Scope(scope.depth + 1)
            known.bind(forward, made, scope, self._file(module.info))
            self._bind_initializer(known, module, scope)
        return known

    def _inside_object(self, made: Instance) -> Scope:
        """The scope of the methods of an object, with the arguments that created it."""
        known = self._scopes.get(made)
        if known is None:
            known = self._scopes[made] = Scope(1)
            self._bind_initializer(known, made, ROOT)
        return known

    def _bind_initializer(self, inner: Scope, module: Module | Instance, scope: Scope) -> None:
        assert module.info is not None
        init, made = module.info.method("__init__"), self.arguments_of(module)
        if init is not None and made is not None:
            inner.bind(init, made, scope, self._file(module.info))
        elif module not in self.observations.calls:  # `self`: its parameters are those of the outer scope
            inner.parameters.update({**scope.parameters, **inner.parameters})

    def within(self, calls: Sequence[ModuleOutput]) -> Scope:
        """The scope inside nested calls of modules of the program, the outermost first."""
        scope = ROOT
        for call in calls:
            module = resolved(call.parents[0])
            inner = self.inside(call, module, scope) if isinstance(module, Module) else None
            if inner is None:
                return Scope(MAX_DEPTH)
            scope = inner
        return scope

    def _is_unsure(self, definitions: Definitions) -> bool:
        if definitions not in self._unsure:
            self._unsure[definitions] = is_unsure(definitions, self.program)
        return self._unsure[definitions]

    def _file(self, info: ClassInfo) -> PythonTree | None:
        """The file of a class; None for the linted one."""
        return info.definitions.tree if info.definitions is not self.program.definitions else None
