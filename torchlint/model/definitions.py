"""Functions, classes and imports of one module."""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property

import libcst as cst

from torchlint.syntax import Tree, walk


class FunctionInfo:
    """A function, method or lambda: its parameters and what stands around it."""

    __slots__ = ("decorators", "enclosing", "is_generator", "name", "node", "owner", "parameters")

    def __init__(
        self, node: cst.FunctionDef | cst.Lambda, owner: ClassInfo | None, enclosing: FunctionInfo | None
    ) -> None:
        self.node = node
        self.owner = owner
        self.enclosing = enclosing
        self.name = node.name.value if isinstance(node, cst.FunctionDef) else "<lambda>"
        self.parameters = _parameter_names(node.params)
        self.decorators = [item.decorator for item in node.decorators] if isinstance(node, cst.FunctionDef) else []
        self.is_generator = False

    @property
    def is_method(self) -> bool:
        """Whether the first parameter is the instance."""
        return self.owner is not None and not self.has_decorator("staticmethod")

    def has_decorator(self, name: str) -> bool:
        return any(item == name or item.endswith(f".{name}") for item in self.decorator_names)

    @property
    def decorator_names(self) -> list[str]:
        return [dotted(item.func if isinstance(item, cst.Call) else item) for item in self.decorators]


class ClassInfo:
    """A class: its methods, bases and the names of the attributes its methods assign."""

    __slots__ = ("assigned", "bases", "methods", "name", "node")

    def __init__(self, node: cst.ClassDef) -> None:
        self.node = node
        self.name = node.name.value
        self.methods: dict[str, FunctionInfo] = {}
        self.bases = [dotted(item.value) for item in node.bases]
        self.assigned: dict[str, set[str]] = {}
        """attribute -> methods that assign it"""


class Definitions:
    """Every function, class and import, found in one pass over the nodes of the tree."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.functions: dict[cst.CSTNode, FunctionInfo] = {}
        self.classes: dict[cst.CSTNode, ClassInfo] = {}
        self.class_names: dict[str, ClassInfo] = {}
        self.imports: dict[str, str] = {}
        self.star_imports: list[str] = []
        self._collect_imports()
        self._collect_definitions()
        self._collect_attributes()

    def _collect_imports(self) -> None:
        for node in self.tree.of_type(cst.Import):
            for alias in node.names:
                name = dotted(alias.name)
                if alias.asname is not None:
                    self.imports[dotted(alias.asname.name)] = name
                else:
                    first = name.partition(".")[0]
                    self.imports[first] = first
        for node in self.tree.of_type(cst.ImportFrom):
            base = "." * len(node.relative) + (dotted(node.module) if node.module is not None else "")
            if isinstance(node.names, cst.ImportStar):
                self.star_imports.append(base)
                continue
            for alias in node.names:
                name = dotted(alias.name)
                local = dotted(alias.asname.name) if alias.asname is not None else name
                self.imports[local] = f"{base}.{name}"

    def _collect_definitions(self) -> None:
        owners: dict[cst.CSTNode, FunctionInfo | ClassInfo] = {}
        kinds = (cst.FunctionDef, cst.ClassDef, cst.Lambda)
        for node in self.tree.nodes:
            if type(node) not in kinds:
                continue
            around = next((owners[item] for item in self.tree.ancestors(node) if item in owners), None)
            if isinstance(node, cst.ClassDef):
                info = owners[node] = self.classes[node] = ClassInfo(node)
                self.class_names.setdefault(info.name, info)
                continue
            assert isinstance(node, (cst.FunctionDef, cst.Lambda))
            owner = around if isinstance(around, ClassInfo) and isinstance(node, cst.FunctionDef) else None
            enclosing = around if isinstance(around, FunctionInfo) else None
            function = owners[node] = self.functions[node] = FunctionInfo(node, owner, enclosing)
            if owner is not None:
                owner.methods[function.name] = function
        for kind in (cst.Yield,):
            for node in self.tree.of_type(kind):
                function_info = self.function_around(node)
                if function_info is not None:
                    function_info.is_generator = True

    def _collect_attributes(self) -> None:
        for target in self.tree.of_type(cst.AssignTarget, cst.AnnAssign, cst.AugAssign):
            for attribute in _assigned_attributes(target.target):
                method = self.method_around(target)
                if method is not None and method.owner is not None and method.parameters:
                    if dotted(attribute.value) == method.parameters[0]:
                        method.owner.assigned.setdefault(attribute.attr.value, set()).add(method.name)

    def function_around(self, node: cst.CSTNode) -> FunctionInfo | None:
        """The innermost function that holds a node (not the node itself)."""
        for item in self.tree.ancestors(node):
            if item in self.functions:
                return self.functions[item]
            if item in self.classes:
                return None
        return None

    def method_around(self, node: cst.CSTNode) -> FunctionInfo | None:
        """The method that holds a node, also through nested functions."""
        function = self.function_around(node)
        while function is not None and function.owner is None and function.enclosing is not None:
            function = function.enclosing
        return function

    def assigned_names(self, loop: cst.CSTNode) -> set[str]:
        """The local names that a loop assigns or changes in place."""
        return self._loop_names.get(id(loop), set())

    @cached_property
    def _loop_names(self) -> dict[int, set[str]]:
        """For each loop the names, worked out for all loops at once."""
        found: dict[int, set[str]] = {}
        if self.tree.by_type.keys().isdisjoint(_LOOPS):
            return found
        for node in self.tree.of_type(*_ASSIGNING, cst.Expr):
            names = _assigned_in(node)
            if not names:
                continue
            for item in (node, *self.tree.ancestors(node)):
                if type(item) in _LOOPS:
                    found.setdefault(id(item), set()).update(names)
                elif type(item) in _SCOPES:
                    break
        return found

    def function_named(self, name: str) -> FunctionInfo | None:
        """The function that the module defines at its top level under a name."""
        return self._top_level.get(name)

    @cached_property
    def _top_level(self) -> dict[str, FunctionInfo]:
        body = self.tree.module.body
        return {node.name.value: self.functions[node] for node in body if isinstance(node, cst.FunctionDef)}

    @cached_property
    def constants(self) -> frozenset[str]:
        """Names that the module binds once, at its top level; cells of a notebook may be run again with others."""
        if self.tree.source.path.endswith(".ipynb"):
            return frozenset()
        bound = Counter(name for node in self.tree.of_type(*_ASSIGNING) for name in _assigned_in(node))
        bound.update(item.name.value for node in self.tree.of_type(cst.Global) for item in node.names)
        lines = (line for line in self.tree.module.body if isinstance(line, cst.SimpleStatementLine))
        top = {name for line in lines for node in line.body for name in _assigned_in(node)}
        return frozenset(name for name in top if bound[name] == 1)

    def ancestors_of(self, info: ClassInfo) -> Iterator[ClassInfo | str]:
        """The class, then its bases depth first; a base that is not of this module as its qualified name."""
        seen: set[ClassInfo] = set()
        stack: list[ClassInfo | str] = [info]
        while stack:
            item = stack.pop()
            if isinstance(item, ClassInfo):
                if item in seen:
                    continue
                seen.add(item)
                stack.extend(self.class_names.get(name) or self.qualified(name) for name in reversed(item.bases))
            yield item

    def method(self, info: ClassInfo, name: str) -> FunctionInfo | None:
        """A method by the order of inheritance, of classes in this module."""
        for item in self.ancestors_of(info):
            if isinstance(item, ClassInfo) and name in item.methods:
                return item.methods[name]
        return None

    def imported(self, name: str) -> str | None:
        """The qualified name of a name that is neither local nor global: imported, builtin, or unknown (None).

        What only an `import *` can have bound is PyTorch's where that imports from PyTorch; else `torch`, `nn`,
        `F` and `optim` mean what they mean by convention.
        """
        target = self.imports.get(name)
        if target is not None:
            return target
        if hasattr(builtins, name):
            return f"builtins.{name}"
        for module in self.star_imports:
            if module.startswith("torch"):
                return f"{module}.{name}"
        renamed = name == "torch" and any(item.partition(".")[0] == "torch" for item in self.imports.values())
        return _CONVENTIONAL.get(name) if self.star_imports or renamed else None

    def names_assigned(self, nodes: Iterable[cst.CSTNode]) -> set[str]:
        """The names that statements, or anything inside of them, bind."""
        return {name for node in nodes for item in walk(node) for name in _assigned_in(item)}

    def local_name(self, qualified: str) -> str | None:
        """How the module may write a qualified name, `th.no_grad` for `torch.no_grad`; None without its import."""
        for local, target in self.imports.items():
            if qualified == target or qualified.startswith(f"{target}."):
                return local + qualified[len(target) :]
        return None

    def qualified(self, name: str) -> str:
        """The qualified name of a dotted name, by the imports."""
        first, dot, rest = name.partition(".")
        target = None if first in self.class_names or hasattr(builtins, first) else self.imported(first)
        if target is None:
            return name
        return f"{target}{dot}{rest}"


_LOOPS = (cst.For, cst.While)
_SCOPES = (cst.FunctionDef, cst.ClassDef, cst.Lambda)
_ASSIGNING = (cst.Assign, cst.AnnAssign, cst.AugAssign, cst.For, cst.CompFor, cst.WithItem, cst.NamedExpr)


def _assigned_in(node: cst.CSTNode) -> set[str]:
    names: set[str] = set()
    if isinstance(node, cst.Expr):
        if isinstance(node.value, cst.Call):
            _add_inplace(node.value, names)
        return names
    for target in _targets(node):
        _add_names(target, names)
    return names


def _add_inplace(call: cst.Call, names: set[str]) -> None:
    if (
        isinstance(call.func, cst.Attribute)
        and call.func.attr.value.endswith("_")
        and isinstance(call.func.value, cst.Name)
    ):
        names.add(call.func.value.value)


def _targets(node: cst.CSTNode) -> list[cst.BaseExpression]:
    if isinstance(node, cst.Assign):
        return [item.target for item in node.targets]
    if isinstance(node, (cst.AnnAssign, cst.AugAssign, cst.For, cst.CompFor, cst.NamedExpr)):
        return [node.target]
    if isinstance(node, cst.WithItem) and node.asname is not None:
        return [node.asname.name]
    return []


def _add_names(target: cst.BaseExpression, names: set[str]) -> None:
    if isinstance(target, cst.Name):
        names.add(target.value)
    elif isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            _add_names(element.value, names)
    elif isinstance(target, cst.Subscript) and isinstance(target.value, cst.Name):
        names.add(target.value.value)


_CONVENTIONAL = {"torch": "torch", "nn": "torch.nn", "F": "torch.nn.functional", "optim": "torch.optim"}


def _parameter_names(params: cst.Parameters) -> tuple[str, ...]:
    return tuple(
        item.name.value
        for item in (*params.posonly_params, *params.params, *params.kwonly_params)
        if isinstance(item, cst.Param)
    )


def _assigned_attributes(target: cst.BaseExpression) -> Iterator[cst.Attribute]:
    if isinstance(target, cst.Attribute):
        yield target
    elif isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from _assigned_attributes(element.value)


def dotted(node: cst.CSTNode | None) -> str:
    """`a.b.c` of a chain of names, or an empty string."""
    if type(node) is cst.Name:
        return node.value
    parts: list[str] = []
    while type(node) is cst.Attribute:  # exactly, since `isinstance` takes long with LibCST's abstract classes
        parts.append(node.attr.value)
        node = node.value
    if type(node) is cst.Subscript:
        return dotted(node.value) if not parts else ""
    if type(node) is not cst.Name:
        return ""
    parts.append(node.value)
    return ".".join(reversed(parts))
