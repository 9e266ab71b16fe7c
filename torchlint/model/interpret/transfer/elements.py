"""Elements of containers, tensors and modules: by index, by key, and in iteration."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from torchlint.model.arguments import flag
from torchlint.model.interpret.machine import Machine, Part
from torchlint.model.interpret.transfer.attributes import Attributes
from torchlint.model.interpret.transfer.objects import is_module_class
from torchlint.model.interpret.transfer.tensors import Tensors
from torchlint.model.module_values import returned_parts
from torchlint.model.utilities import Kind, is_kind
from torchlint.model.values import (
    Attribute,
    CallResult,
    Component,
    Container,
    Dict,
    Element,
    External,
    Generator,
    Instance,
    Iteration,
    List,
    Module,
    ModuleOutput,
    Parameter,
    Parameters,
    Phi,
    Plain,
    Set,
    Tensor,
    Tuple,
    Unknown,
    Value,
    drawn_from,
    inputs_of,
    resolved,
)
from torchlint.pytorch import api, datasets, naming, operators
from torchlint.syntax.python_ast import called_name, site_of

SOME = "?"
"""The key of an unknown entry: the value is one of the entries."""
_LAZY = frozenset({"zip", "enumerate", "map"})
"""Functions that draw nothing before a loop iterates over their result."""


class Elements(Part):
    """Reads elements."""

    def __init__(self, machine: Machine, tensors: Tensors, attributes: Attributes) -> None:
        super().__init__(machine)
        self.tensors = tensors
        self.attributes = attributes

    def of_carried(self, value: Value, read: Callable[[Value], Value], node: ast.AST) -> Value | None:
        """An element of a tuple that the loop around carries, from its initial or its final value."""
        begun = resolved(value)
        if not isinstance(value, Phi) or not isinstance(begun, Container) or begun.grown or isinstance(begun, Dict):
            return None
        scope = next((item for item in self.state.position.scopes if value in item.name_phis.values()), None)
        if scope is None or len(value.parents) > 1:
            return None
        element = self.state.stamp(Phi(node, (read(begun),), value.loop))
        scope.elements.append((element, value, read))
        return element

    def lookup(self, owner: Value, key: object, node: ast.AST, *, basic: bool = False) -> Value:
        """An element by key (None: any) of a container, a tensor or an unknown value."""
        if isinstance(owner, Container):
            return self._container_element(owner, key, node)
        stored = self.state.heap.get((owner, f"[{key!r}]"))
        if stored is None and isinstance(owner, Instance):
            stored = self.observations.stored.get((owner, f"[{key!r}]"))  # by statements of another module
        if stored is not None:
            return stored
        if isinstance(owner, Tensor):
            is_pair = self._is_pair_with_indices(owner)
            if is_pair is not False and key in (1, -1):
                return self._indices_of(owner, key, node, is_sure=is_pair is True)
            if not is_pair and key is not None and (isinstance(owner, ModuleOutput) or _is_record(owner)):
                return self.attributes.component(owner, key, node)
            return self.tensors.make(operators.GETITEM, (owner,), node, owner if basic else None)
        if isinstance(owner, Plain):
            return self.tensors.number("getitem", (owner,), node, key)
        if isinstance(owner, Parameters):
            return self.tensors.parameter_of(owner, node)
        if isinstance(owner, Module) and owner.info is None:
            return self._submodule(owner, key, node)
        if isinstance(owner, Phi):
            inputs = [item for item in inputs_of(owner) if isinstance(item, (Container, Tensor))]
            if len(inputs) == 1 and not owner.is_loop:
                others = [item for item in inputs_of(owner) if isinstance(item, Attribute)]
                if others and isinstance(inputs[0], Tensor):  # that of `__init__`, or what another method has set
                    return self.state.phi(node, [self.lookup(item, key, node) for item in (inputs[0], *others)])
                return self.lookup(inputs[0], key, node, basic=basic)
            entries = [part for item in _dictionaries(owner) if (part := item.part(key)) is not None]
            if entries:
                return self.state.phi(node, entries)
        return self.state.part_of(owner, f"[{key!r}]", Element, node)

    def _is_pair_with_indices(self, owner: Tensor) -> bool | None:
        """Whether an operator or a layer returns values and their indices; None if a variable decides."""
        if owner.op in api.WITH_INDICES:
            return True
        maker = resolved(owner.parents[0]) if isinstance(owner, ModuleOutput) else owner
        made = self.state.made_by(maker)
        parameters = api.INDICES_ON_REQUEST.get(made[0]) if made is not None else None
        if made is None or parameters is None or (isinstance(maker, Module) and maker.info is not None):
            return False
        return flag(made[1].bind(parameters, made[2]), "return_indices")

    def _indices_of(self, owner: Tensor, key: object, node: ast.AST, *, is_sure: bool) -> Value:
        """The indices that an operator or a layer returns after the values: integers, which have no graph."""
        if is_sure:
            return self.tensors.make(operators.ARGMAX, (owner,), node)
        return self.state.part_of(owner, f"[{key!r}]", Element, node)

    def _submodule(self, owner: Module, key: object, node: ast.AST) -> Value:
        """An element of a `Sequential` or `ModuleList`: one of its modules."""
        inside = [
            item for part in owner.parents for item in (part.elements() if isinstance(part, Container) else [part])
        ]
        named = [part.part(key) for part in owner.parents if isinstance(part, Container) and isinstance(key, str)]
        if len(named) == 1 and named[0] is not None:
            return named[0]
        modules = [item for item in inside if isinstance(resolved(item), (Module, Unknown))]
        is_sure = not any(isinstance(part, Container) and part.unsure for part in owner.parents)
        if is_sure and isinstance(key, int) and -len(inside) <= key < len(inside):
            return inside[key]
        if modules:
            return self.state.phi(node, modules)
        return self.state.part_of(owner, "[]", Element, node)

    def _container_element(self, owner: Container, key: object, node: ast.AST) -> Value:
        is_counted = not (owner.grown and owner.site is not None and owner.site.is_of(ast.ListComp))
        if isinstance(owner, (List, Tuple)) and not owner.known_parts and is_counted:
            element = owner.element_at(key)
            if element is not None:
                return element
        known = (owner.part(key) or owner.part(f"[{key!r}]")) if key is not None else None
        if known is not None:
            return known
        is_one = isinstance(key, str) and key is not SOME
        if is_one and (default := _default_of(owner)) is not None:
            own = type(default)(node)
            own.order, own.loops = owner.order, owner.loops
            owner.set_part(key, own)
            return own
        elements = owner.elements()
        if owner.is_open:
            elements.append(self.state.part_of(owner, "[others]", Element, node))
        if len(elements) == 1 and isinstance(owner, (List, Tuple, Set, Generator)):
            return elements[0] if not owner.grown else self._drawn(owner, elements[0])
        if not elements:
            return self.state.part_of(owner, f"[{key!r}]", Element, node)
        part = "[]" if key is None else f"[one {key!r}]"
        whole = owner.part(part)
        if not isinstance(whole, Phi) or whole.parents != tuple(elements):
            whole = self.state.stamp(Phi(node, tuple(elements)))
            whole.source, whole.is_keyed = owner, key is not None
            owner.set_part(part, whole)
        return whole

    def some_of(self, drawn: Value, node: ast.AST) -> Value:
        """Some elements of a container, drawn under a condition: it is unknown which ones."""
        if isinstance(drawn, Tuple):
            return self.state.stamp(Tuple(node, tuple(self.some_of(item, node) for item in drawn.parents)))
        if not isinstance(drawn, Phi) or drawn.source is None or len(drawn.parents) < 2:
            return drawn
        some = self.state.stamp(Phi(node, drawn.parents))
        some.source, some.is_keyed = drawn.source, True
        return some

    def _drawn(self, owner: Container, element: Value) -> Value:
        """An element of a growing list: the same one, perhaps of an earlier iteration."""
        known = owner.part("[]")
        if not isinstance(known, Phi) or known.parents != (element,):
            known = Phi(element.site, (element,))
            known.order, known.loops, known.label, known.source = element.order, element.loops, element.label, owner
            owner.set_part("[]", known)
        return known

    def unpack(self, owner: Value, node: ast.AST) -> Sequence[Value]:
        """The values `*owner` stands for."""
        return owner.elements() if isinstance(owner, Container) else [self.iterate(owner, node)]

    def iterate(self, owner: Value, node: ast.AST) -> Value:
        """The value that one iteration over a value yields."""
        carried = self.of_carried(owner, lambda item: self.iterate(item, node), node)
        if carried is not None:
            return carried
        owner = resolved(owner)
        self._note_draws(owner, node)
        if isinstance(owner, (Parameters, Container, Module)):
            return self.lookup(owner, None, node)
        if isinstance(owner, Tensor):
            return self.state.stamp(Tensor(node, "unbind", (owner,), self.state.mode, base=owner))
        if isinstance(owner, Plain):
            return Plain(node)
        if isinstance(owner, Unknown) and (self._is_output(owner) or self._is_input(owner)):
            return self.state.part_of(owner, "[]", Element, node)
        is_loader = any(is_kind(item, Kind.LOADER) for item in inputs_of(owner))
        if is_loader and not (isinstance(node, ast.Call) and called_name(node) == "next"):
            around = self.state.position.loops
            is_own = isinstance(node, ast.comprehension) or (bool(around) and around[-1].site == site_of(node))
            self.observations.passes.setdefault(owner, []).append(around[:-1] if is_own else around)
        return self.state.stamp(Iteration(node, (owner,)))

    def _note_draws(self, owner: Value, node: ast.AST) -> None:
        """Note that a loop or `next` draws from endless iterators. `zip(...)` draws once its own loop runs."""
        if isinstance(node, ast.Call) and called_name(node) in _LAZY:
            return
        for item in drawn_from(owner) if isinstance(owner, (Generator, CallResult)) else ():
            if (endless := _endless(item)) is not None:
                self.observations.draws.setdefault(endless, []).append(self.state.position.loops)

    @staticmethod
    def _is_output(value: Unknown) -> bool:
        """Whether a value's name says that it is the output of an unknown module."""
        return (
            isinstance(value, CallResult)
            and value.callee is not None
            and naming.is_called_as_module(value.callee.label)
        )

    def _is_input(self, value: Unknown) -> bool:
        """Whether a value is an input of a module's `forward`: it may have a graph, and is no loader."""
        info = self.state.frame.info
        if info is None or info.owner is None or info.name != "forward" or not isinstance(value, Parameter):
            return False
        return value.label in info.parameters and is_module_class(info.owner)


def _is_record(owner: Tensor) -> bool:
    """Whether part of a module's output is itself a dictionary or tuple, according to its `forward`."""
    returned = returned_parts(owner) if isinstance(owner, Component) else []
    return bool(returned) and all(isinstance(item, Container) for item in returned)


def _dictionaries(owner: Phi) -> list[Dict]:
    """The dictionaries that a value is one of: `{"a": {"D": x}, "b": {"D": y}}.values()`."""
    inputs = list(inputs_of(owner))
    found = [item for item in inputs if isinstance(item, Dict)]
    return found if len(found) == len(inputs) and not owner.is_loop else []


def _default_of(owner: Container) -> Container | None:
    """The list that represents all lists of a `defaultdict(list)`."""
    first = owner.parents[0] if isinstance(owner, Dict) and owner.parents else None
    return first if isinstance(first, Container) and first.site == owner.site else None


def key_of(index: Value | None) -> object:
    """The literal number or text of an index, else None."""
    return index.constant if isinstance(index, Plain) and isinstance(index.constant, (str, int)) else None


def _endless(value: Value) -> Value | None:
    """The endless iterator behind a value, also through a slice: `islice(cycle(loader), n)`."""
    callee = value.callee if isinstance(value, CallResult) else None
    if not isinstance(callee, External):
        return None
    if callee.name in datasets.SLICES and value.parents:
        return _endless(resolved(value.parents[0]))
    return value if callee.name in datasets.CYCLES else None
