"""Modules and parameters in plain containers."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule, edits, repairs
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import definitions, values
from torchlint.model.queries import autograd_functions, passed_on, torch_classes
from torchlint.pytorch import api, stateful_modules
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.index import FileIndex
    from torchlint.syntax.python_ast import Site

_OWN_WAY = "parameters named_parameters modules named_modules state_dict _apply to cuda __setattr__".split()
"""Methods by which a class handles its parameters itself."""
_BASE = LazyPattern(r"Base|Abstract|Mixin")
_DISPLAYS = (ast.List, ast.Tuple, ast.Dict, ast.ListComp, ast.DictComp)
_GROWING = frozenset({"append", "extend", "insert"})
_BY_HAND = frozenset("add_module register_module register_parameter setattr __setattr__ update ParameterList".split())
"""Calls that may register the parameters that a class stores elsewhere."""


class PlainContainer(NamedTuple):
    """The container at `site`, a module's attribute `name`, contains parameters that the module does not register."""

    site: Site
    name: str
    holder: str
    """The class that would register them: `ModuleList`."""
    example: Site | None


class UnregisteredModule(Rule):
    """Modules in a plain list or dict are missing from `parameters()`.

    ## What it does
    Finds lists, tuples and dicts that contain modules or parameters, if the `__init__` of a module stores them as an
    attribute.

    ## Why is this bad?
    The optimizer never trains these layers. A module registers its attributes, and the contents of a `ModuleList` or
    `ModuleDict`, but not the contents of a list. So the layers are missing from `parameters()` and the state dict,
    checkpoints do not contain them, and `to()` leaves them on the CPU.

    ## Example
    ```python
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Linear(4, 4) for _ in range(3)]

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x
    ```

    Use instead:
    ```python
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x
    ```

    ## Fix safety
    The fix uses `nn.ModuleList` or `nn.ModuleDict`. It is unsafe: the layers are then trained and part of the state
    dict, so old checkpoints do not match. There is no fix if the code needs a list or a dict: `get` or `sort`, keys
    that are not plain strings, or elements that are not modules.

    ## What verify shows
    `torchlint verify` checks the contents of the container at each step. It confirms the finding if its parameters
    receive gradients and neither the module nor an optimizer holds them. It refutes the finding if the module registers
    them.

    ## References
    - [torch.nn.ModuleList](https://docs.pytorch.org/docs/stable/generated/torch.nn.ModuleList.html)
    """

    code = "TL309"
    category = Category.CORRECTNESS
    triggers = ((b"class",), (b"__init__",), (b"nn", b"torch"), (b"[", b"{", b"("))

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return b"Module" in index.code and _may_hold_layers(index)

    def ask(self) -> Iterator[PlainContainer]:
        for info in self._classes():
            if (
                info.method("__init__") is not None
                and torch_classes.is_module_class(info)
                and not any(map(info.method, _OWN_WAY))
            ):
                own = (item for item in info.ancestors() if isinstance(item, definitions.ClassInfo))
                if not any(map(self._registers, own)) and not _is_base(info):
                    found = self._containers(info)
                    found = found if "__init__" in info.methods else filter(partial(self._is_made_in, info), found)
                    yield from found if self._is_here(info) else filter(partial(self._is_made_elsewhere, info), found)

    def _classes(self) -> Iterator[definitions.ClassInfo]:
        """The classes of the file, and those of imported files that may store a container of a third file."""
        for file in self.model.program.files.values():
            yield from (info for info in file.classes.values() if self._is_here(info) or self._stores_results(info))

    def _stores_results(self, info: definitions.ClassInfo) -> bool:
        """Whether a class stores containers that functions of other files return."""
        init, file = info.methods.get("__init__"), info.definitions
        for node in init.node.body if init is not None and isinstance(init.node, python_ast.FUNCTIONS) else ():
            made = node.value if isinstance(node, ast.Assign) else None
            if isinstance(node, ast.Assign) and isinstance(made, ast.Call) and _is_attribute(node):
                if not python_ast.called_name(made)[:1].islower() or not torch_classes.is_module_class(info):
                    continue
                called = self.model.provenance.function_called(made, file)
                returned = (
                    autograd_functions.returns_of(called)
                    if called is not None and called.definitions is not file
                    else []
                )
                if any(map(_is_container, returned)):
                    return True
        return False

    def _is_here(self, info: definitions.ClassInfo) -> bool:
        return info.definitions is self.model.definitions

    def _is_made_elsewhere(self, info: definitions.ClassInfo, found: PlainContainer) -> bool:
        """Whether a function of a third file makes a container: the file of the class alone does not show it."""
        return found.site.inner is not None and found.site.inner.tree is not info.definitions.tree

    def _is_made_in(self, info: definitions.ClassInfo, found: PlainContainer) -> bool:
        """Whether a method of a class makes a container that the `__init__` of its base class stores."""
        method = self.model.definitions.method_around(self.model.tree.node(found.site))
        return method is not None and method.owner is info

    def _registers(self, info: definitions.ClassInfo) -> bool:
        """Whether a class registers something by hand."""
        nodes = list(python_ast.walk(info.node))
        if any(isinstance(node, ast.Attribute) and node.attr in ("_modules", "_parameters") for node in nodes):
            return True
        names = {python_ast.called_name(node) for node in nodes if isinstance(node, ast.Call)}
        return bool(names & _BY_HAND)

    def _containers(self, info: definitions.ClassInfo) -> Iterator[PlainContainer]:
        attributes = self.model.program.attributes_of(info)
        others = [item for value in attributes.values() for item in values.inputs_of(value)]
        known = self._parts([value for value in others if isinstance(value, values.Module)])
        for name, value in attributes.items():
            containers = [item for item in values.inputs_of(value) if isinstance(item, values.Container)]
            if containers and not self._is_handed_on(name, info):
                hides = not passed_on.is_gone_through(info, name)
                plain = (item for item in containers if not (hides and self._is_hidden(item)))
                yield from self._lost(plain, name, known, passed_on.optimized_keys(info, name))

    def _parts(self, modules: list[values.Value]) -> set[values.Value]:
        """Registered modules with all that they contain: their elements, and attributes that their classes store."""
        found: set[values.Value] = set()
        stack = list(modules)
        while stack:
            item = stack.pop()
            if item in found:
                continue
            found.add(item)
            if isinstance(item, values.Module):
                stored = self.model.program.attributes_of(item.info).values() if item.info is not None else ()
                registered = (part for value in stored for part in values.inputs_of(value))
                stack += [*_inside(item), *(part for part in registered if not isinstance(part, values.Container))]
        return found

    def _lost(
        self, containers: Iterable[values.Container], name: str, known: set[values.Value], optimized: set[object]
    ) -> Iterator[PlainContainer]:
        """Containers with parameters, none of which is registered elsewhere, except elements an optimizer may have."""
        for container in containers:
            if container.site is None or not isinstance(container, (values.List, values.Tuple, values.Dict)):
                continue
            inside = [item for item in _inside(container) if self._is_part(item)]
            parts = [part for part in map(container.part, optimized) if part is not None]
            given = {item for part in parts for item in values.inputs_of(part)}
            lost = [item for item in inside if item not in given and self._is_trained(item)]
            if lost and known.isdisjoint(inside) and not any(self._is_used(item) for item in lost):
                is_parameter = isinstance(lost[0], values.Tensor)
                kind = "Dict" if isinstance(container, values.Dict) else "List"
                holder = f"{'Parameter' if is_parameter else 'Module'}{kind}"
                yield PlainContainer(container.site, name, holder, lost[0].site)

    def _is_part(self, value: values.Value) -> bool:
        return isinstance(value, (values.Module, values.Tensor)) or self.model.imported_class(value) is not None

    def _is_trained(self, value: values.Value) -> bool:
        """Whether a value certainly has parameters, none of which the program may freeze."""
        return self._has_parameters(value) and not self.model.frozen.may_be_partly(value)

    def _is_hidden(self, container: values.Container) -> bool:
        """Whether it is a literal list or tuple with one element, the usual way to hide a module from its owner."""
        return (
            not container.grown
            and container.site is not None
            and container.site.is_of(ast.List, ast.Tuple)
            and (len(container.elements()) == 1)
        )

    def _is_handed_on(self, name: str, info: definitions.ClassInfo) -> bool:
        """Whether a container is deleted, replaced, or passed to code that may register it: `nn.ModuleList(self.x)`."""
        if info not in self._handed_on:
            classes = (item for file in self.model.program.files.values() for item in file.classes.values())
            heirs = [item for item in classes if info in item.ancestors()]
            bases = [item for item in info.ancestors() if isinstance(item, definitions.ClassInfo)]
            self._handed_on[info] = {name for item in {*heirs, *bases} for name in passed_on.attributes(item)}
        elsewhere = info.assigned.get(name, set()) - _beginning(info)
        cuts = (method in info.methods and _only_cuts(info.methods[method], name) for method in elsewhere)
        return name in self._handed_on[info] or not all(cuts)

    @cached_property
    def _handed_on(self) -> dict[definitions.ClassInfo, set[str]]:
        return {}

    def _is_used(self, value: values.Value) -> bool:
        """Whether the new object also goes elsewhere, where code may register it: `Wrapper(layer)`."""
        tree = self.model.tree
        made = tree.node(value.site)
        statement = tree.parent(made) if made is not None else None
        name = statement.targets[0] if isinstance(statement, ast.Assign) else None
        file = self.model.program.definitions_of(statement) if statement is not None else None
        function = file.function_around(statement) if file is not None and statement is not None else None
        if not isinstance(name, ast.Name) or function is None:
            return statement is None
        uses = [node for node in python_ast.walk(function.node) if isinstance(node, ast.Name) and node.id == name.id]
        around = [tree.parent(node) for node in uses if isinstance(node.ctx, ast.Load)]
        return any(
            isinstance(item, (ast.Assign, ast.keyword, ast.Starred))
            or (isinstance(item, ast.Call) and python_ast.called_name(item) != "append")
            for item in around
        )

    def _has_parameters(self, value: values.Value, depth: int = 3) -> bool:
        """Whether a value is a parameter, or a module that certainly has some."""
        if isinstance(value, values.Tensor):
            return value.leaf and self._is_parameter(value)
        imported = self.model.imported_class(value)
        if imported is not None:
            return torch_classes.owns_weights(imported)
        if not isinstance(value, values.Module) or not depth:
            return False
        if value.info is None:
            is_sequence = value.name == "torch.nn.Sequential"
            inner = _inside(value) if is_sequence else ()
            return stateful_modules.may_own(value.name) or any(self._has_parameters(item, depth) for item in inner)
        stored = self.model.program.attributes_of(value.info).values()
        return any(self._surely_has_parameters(item, depth - 1) for item in stored)

    def _surely_has_parameters(self, value: values.Value, depth: int) -> bool:
        """Whether each possible value of an attribute, apart from None, has parameters."""
        some = list(values.meanings(value))
        return bool(some) and all(self._has_parameters(item, depth) for item in some)

    def _is_parameter(self, value: values.Tensor) -> bool:
        """Whether `nn.Parameter` creates a leaf."""
        call = self.model.tree.node(value.site)
        if not isinstance(call, ast.Call) or any(item.arg == "requires_grad" for item in call.keywords):
            return False
        return self.model.program.definitions_of(call).named(call.func) in api.PARAMETERS

    # -- report ---------------------------------------------------------------------------------------

    def report_PlainContainer(self, found: PlainContainer) -> None:
        what = "parameters" if found.holder.startswith("Parameter") else "modules"
        self.report(
            found.site,
            f"the {what} in `{found.name}` are not registered: they are never trained, moved or saved",
            related=[(found.example, "one of them is created here")] if found.example not in (None, found.site) else [],
            help=f"store them in an `nn.{found.holder}`",
            fix=self._fix(found),
        )

    def _fix(self, found: PlainContainer) -> edits.Change | None:
        """The container wrapped in a registering class, if all uses in the file still work."""
        known = self.model.definitions
        is_short = known.imports.get("nn") == "torch.nn"
        name = f"nn.{found.holder}" if is_short else known.local_name(f"torch.nn.{found.holder}")
        written = self.written(found.site)
        code = self.model.tree.code(found.site)
        if name is None or written is None or "\n" in code or not found.site.is_of(ast.List, ast.ListComp, ast.Dict):
            return None
        container = self.model.tree.node(found.site)
        if not repairs.may_register(self.model, container, found.name, found.holder):
            return None
        return edits.Change(f"store them in `{name}`", [edits.Replace(written, f"{name}({code})")])


def _may_hold_layers(index: FileIndex) -> bool:
    """Whether a container becomes an attribute, and code calls a class inside a container or to extend one."""
    kept = [item.value for item in index.tree.of_type(ast.Assign, ast.AnnAssign) if _is_attribute(item)]
    given = [item.value for item in index.tree.of_type(ast.Return)]
    is_returned = any(isinstance(value, ast.Call) for value in kept) and any(map(_is_container, given))
    is_kept = any(map(_is_container, kept)) or any(isinstance(value, ast.Name) for value in kept)
    return (is_kept or is_returned) and any(_makes_object(index, call) for call in _contained_calls(index))


def _is_attribute(statement: ast.Assign | ast.AnnAssign) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return any(isinstance(item, ast.Attribute) for target in targets for item in python_ast.walk(target))


def _is_container(value: ast.expr | None) -> bool:
    """Whether an expression creates a list, a tuple or a dict, or is a name that may refer to one."""
    is_made = isinstance(value, ast.Call) and python_ast.called_name(value) in ("list", "dict")
    return is_made or isinstance(value, (*_DISPLAYS, ast.Name))


def _contained_calls(index: FileIndex) -> Iterator[ast.Call]:
    """The calls that create a container's elements: in brackets, appended, or stored in a slot; also by name."""
    named: dict[str, list[ast.Call]] = {}
    for item in index.tree.of_type(ast.Assign):
        if isinstance(item.value, ast.Call) and isinstance(item.targets[0], ast.Name):
            named.setdefault(item.targets[0].id, []).append(item.value)
    growing = (item for call in index.calls(_GROWING) for item in call.args)
    slots = (item.value for item in index.tree.of_type(ast.Assign) if isinstance(item.targets[0], ast.Subscript))
    sums = (item.value for item in index.tree.of_type(ast.AugAssign))
    for node in (*index.tree.of_type(*_DISPLAYS), *growing, *slots, *sums):
        yield from (item for item in python_ast.walk(node) if isinstance(item, ast.Call))
        for name in python_ast.children(node) if isinstance(node, _DISPLAYS) else (node,):
            yield from named.get(name.id, ()) if isinstance(name, ast.Name) else ()


def _makes_object(index: FileIndex, call: ast.Call) -> bool:
    """Whether a call may create an object: it calls a class by name, or a function of the file."""
    name = python_ast.called_name(call)
    name = index.aliases.get(name, name)
    return name.lstrip("_")[:1].isupper() or name in index.function_names or not name


def _is_base(info: definitions.ClassInfo) -> bool:
    """Whether a class is meant as a base class, whose subclasses may register its contents."""
    return _BASE.search(info.name) is not None or any(method.is_hook for method in info.methods.values())


def _beginning(info: definitions.ClassInfo) -> set[str]:
    """`__init__`, and the methods of an object that only `__init__` calls."""
    called = {name: _called_methods(method.node) for name, method in info.methods.items()}
    own = called.pop("__init__", set())
    return {"__init__"} | own.difference(*called.values())


def _called_methods(node: ast.AST) -> set[str]:
    """The names of the methods called on `self`."""
    calls = (item.func for item in python_ast.walk(node) if isinstance(item, ast.Call))
    return {item.attr for item in calls if isinstance(item, ast.Attribute) and python_ast.dotted(item.value) == "self"}


def _only_cuts(method: definitions.FunctionInfo, name: str) -> bool:
    """Whether a method only assigns parts of a container to its attribute: `self.blocks = self.blocks[:last]`."""
    assigned = [
        node for node in python_ast.walk(method.node) if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign))
    ]
    targets = [
        (target, node)
        for node in assigned
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Attribute) and target.attr == name
    ]
    return bool(targets) and all(
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Subscript)
        and python_ast.dotted(node.value.value) == python_ast.dotted(target)
        for target, node in targets
    )


def _inside(value: values.Value) -> list[values.Value]:
    """The contents of a container or module of modules, at any depth."""
    found: list[values.Value] = []
    stack = [value]
    while stack:
        item = stack.pop()
        inner = item.elements() if isinstance(item, values.Container) else list(item.parents)
        for part in (resolved for inside in inner for resolved in values.inputs_of(inside)):
            if part not in found:
                found.append(part)
                if isinstance(part, values.Container) or (isinstance(part, values.Module) and part.info is None):
                    stack.append(part)
    return found
