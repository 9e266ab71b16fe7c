"""The functions, classes and imports of one module, and of the modules it imports."""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Protocol

from torchlint.model.assigned import ASSIGNING, assigned_attributes, assigned_in
from torchlint.model.scopes import LOCAL, Scopes, imported_by
from torchlint.pytorch.api import TENSOR_CLASSES
from torchlint.pytorch.packages import COMPILERS
from torchlint.syntax.python_ast import (
    FUNCTIONS,
    LOOPS,
    SCOPES,
    FunctionNode,
    Visit,
    children,
    dotted,
    elsewhere_of,
    inside,
    is_literal,
    walk,
)
from torchlint.syntax.python_tree import PythonTree


class FunctionInfo:
    """A function, method or lambda: its parameters and the scopes around it."""

    __slots__ = ("decorators", "definitions", "enclosing", "is_generator", "name", "node", "owner", "parameters")

    def __init__(
        self, node: FunctionNode, definitions: Definitions, owner: ClassInfo | None, enclosing: FunctionInfo | None
    ) -> None:
        self.node = node
        self.definitions = definitions
        """The definitions of the module that contains it."""
        self.owner = owner
        self.enclosing = enclosing
        self.name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
        self.parameters = tuple(item.arg for item in all_parameters(node))
        self.decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
        self.is_generator = False

    @property
    def is_method(self) -> bool:
        """Whether the first parameter is the instance."""
        return self.owner is not None and not self.has_decorator("staticmethod")

    def has_decorator(self, name: str) -> bool:
        return any(item == name or item.endswith(f".{name}") for item in self.decorator_names)

    def takes_tensor(self, parameter: str) -> bool:
        """Whether an annotation says that a parameter is a tensor, perhaps or None: `Tensor`, `Optional[Tensor]`."""
        return any(item.arg == parameter and self._is_tensor(item.annotation) for item in all_parameters(self.node))

    def _is_tensor(self, annotation: ast.expr | None) -> bool:
        if isinstance(annotation, ast.Subscript):
            is_optional = self.definitions.qualified(dotted(annotation), self.node) == "typing.Optional"
            return is_optional and self._is_tensor(annotation.slice)
        if isinstance(annotation, ast.BinOp):  # Tensor | None
            sides = [side for side in (annotation.left, annotation.right) if not is_literal(side, None)]
            return len(sides) == 1 and self._is_tensor(sides[0])
        text = annotation.value if isinstance(annotation, ast.Constant) else dotted(annotation)
        return isinstance(text, str) and self.definitions.qualified(text, self.node) in TENSOR_CLASSES

    @property
    def is_hook(self) -> bool:
        """Whether the body does nothing, so that subclasses may override it."""
        body = [self.node.body] if isinstance(self.node, ast.Lambda) else self.node.body
        return all(
            isinstance(item, (ast.Pass, ast.Raise))
            or (isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant))
            for item in body
        )

    @property
    def is_abstract(self) -> bool:
        """Whether only subclasses implement it: calls through the class go to objects of a subclass."""
        body = [] if isinstance(self.node, ast.Lambda) else self.node.body
        return self.has_decorator("abstractmethod") or (bool(body) and isinstance(body[-1], ast.Raise))

    @property
    def is_compiled(self) -> bool:
        """Whether another compiler, such as Taichi, Numba or Triton, compiles the function: it changes no tensors."""
        names = (self.definitions.qualified(item, self.node) for item in self.decorator_names)
        return any(item.startswith(COMPILERS) for item in names)

    @property
    def decorator_names(self) -> list[str]:
        return [dotted(item.func if isinstance(item, ast.Call) else item) for item in self.decorators]


class ClassInfo:
    """A class: its methods, bases and the names of the attributes its methods assign."""

    __slots__ = (
        "__weakref__", "_builders", "_known", "assigned", "bases", "bound", "definitions", "methods", "name", "node",
    )  # fmt: skip

    def __init__(self, node: ast.ClassDef, definitions: Definitions) -> None:
        self._known: dict[str, FunctionInfo | None] = {}
        self._builders: frozenset[str] | None = None
        self.node = node
        self.definitions = definitions
        """The definitions of the module that contains it."""
        self.name = node.name
        self.methods: dict[str, FunctionInfo] = {}
        self.bases = [dotted(item) for item in node.bases]
        self.assigned: dict[str, set[str]] = {}
        """attribute -> methods that assign it"""
        self.bound: dict[str, set[str]] = {}
        """The same without methods that only use augmented assignments such as `+=`."""

    def ancestors(self) -> Iterator[ClassInfo | str]:
        """The class, then its bases depth first; a base from an unknown module as its qualified name."""
        seen: set[ClassInfo] = set()
        stack: list[ClassInfo | str] = [self]
        while stack:
            item = stack.pop()
            if isinstance(item, ClassInfo):
                if item in seen:
                    continue
                seen.add(item)
                stack.extend(reversed(item.definitions.bases(item)))
            yield item

    def is_related_to(self, other: ClassInfo | None) -> bool:
        """Whether an object may be an instance of both classes: they are equal, or one inherits from the other."""
        return other is not None and (other in self.ancestors() or self in other.ancestors())

    def method(self, name: str) -> FunctionInfo | None:
        """A method by the order of inheritance, looked up once for all classes that inherit it from the same class."""
        passed: dict[ClassInfo, None] = {}
        item = self
        while name not in item._known and name not in item.methods:
            passed[item] = None
            bases = [base for base in item.definitions.bases(item) if isinstance(base, ClassInfo)]
            if len(bases) != 1 or bases[0] in passed:
                break
            item = bases[0]
        if name not in item._known:
            classes = (base for base in item.ancestors() if isinstance(base, ClassInfo))
            item._known[name] = next((base.methods[name] for base in classes if name in base.methods), None)
        found = item._known[name]
        for info in passed:
            info._known[name] = found
        return found

    def forget_inherited(self) -> None:
        """Forget methods of bases, whose modules may be gone."""
        self._known.clear()

    @property
    def has_no_objects(self) -> bool:
        """Whether `__init__` always ends in an error after other work, and no class of the file inherits from it.

        If it only raises, classes of other files may inherit from it.
        """
        init = self.method("__init__")
        if init is None or isinstance(init.node, ast.Lambda) or init.is_hook or init.is_generator:
            return False
        if not isinstance(init.node.body[-1], ast.Raise):
            return False
        if any(isinstance(item, ast.Return) for item in walk(init.node)):
            return False
        others = (info for info in self.definitions.classes.values() if info is not self)
        return not any(self in info.ancestors() for info in others)

    def writers(self, name: str) -> set[str]:
        """The methods that assign an attribute, including overridden methods of bases."""
        return {method for item in self._classes() for method in item.assigned.get(name, ())}

    def binders(self, name: str) -> set[str]:
        """The same without augmented assignments such as `+=`: an in-place change keeps the tensor."""
        return {method for item in self._classes() for method in item.bound.get(name, ())}

    def builders(self) -> frozenset[str]:
        """`__init__`, and the methods that it calls and nothing else in their file mentions.

        These run at the start. Another file that calls a public one again stores the same kind of value.
        """
        if self._builders is None:
            self._builders = frozenset({"__init__", *(name for name in self.methods if self._is_builder(name))})
        return self._builders

    def _is_builder(self, name: str) -> bool:
        init = self.methods.get("__init__")
        if init is None or name.endswith("__"):
            return False
        tree = self.definitions.tree
        mentions = [item for item in tree.of_type(ast.Attribute) if item.attr == name]
        is_called = name.startswith("_") or all(isinstance(tree.parent(item), ast.Call) for item in mentions)
        return bool(mentions) and is_called and all(self.definitions.function_around(item) is init for item in mentions)

    def _classes(self) -> Iterator[ClassInfo]:
        return (item for item in self.ancestors() if isinstance(item, ClassInfo))


class Others(Protocol):
    """The modules of the repository that a module imports."""

    @property
    def visit(self) -> Visit:
        """A context in which the interpretation runs while it is inside those modules."""

    def defined(self, qualified: str, importer: Definitions) -> ClassInfo | FunctionInfo | None:
        """The class or function behind a qualified name in a module; None if no module of the repository has it."""

    def anywhere(self, qualified: str, importer: Definitions) -> ClassInfo | FunctionInfo | None:
        """The same, also where imports are followed for base classes only."""

    def imported_by_star(self, module: str, name: str, importer: Definitions) -> str | None:
        """The qualified name of a name that `from module import *` binds; None if it binds no such name."""

    def followed(self) -> Iterable[Definitions]:
        """The modules followed so far."""


class Definitions:
    """Every function, class and import, found in one pass over the nodes of the tree."""

    def __init__(self, tree: PythonTree, others: Others | None = None) -> None:
        self.tree = tree
        self.others = others
        self.functions: dict[ast.AST, FunctionInfo] = {}
        self.classes: dict[ast.AST, ClassInfo] = {}
        self.class_names: dict[str, ClassInfo] = {}
        self.scopes = Scopes(tree)
        self._names: dict[ast.expr, str] = {}
        """The qualified name of each expression asked for so far: most rules ask for every callee."""
        self._bases: dict[ClassInfo, list[ClassInfo | str]] = {}
        self._collect_definitions()
        self._collect_attributes()

    def follow(self, others: Others | None) -> None:
        """Use these as the other modules from here on; what the earlier ones said about bases is no longer true."""
        self.others = others
        self._bases.clear()
        for info in self.classes.values():
            info.forget_inherited()

    @property
    def imports(self) -> dict[str, str]:
        """The module's own imports: local name -> qualified name."""
        return self.scopes.imports

    def _collect_definitions(self) -> None:
        owners: dict[ast.AST, FunctionInfo | ClassInfo] = {}
        for node in self.tree.scopes:
            around = next((owners[item] for item in self.tree.ancestors(node) if item in owners), None)
            if isinstance(node, ast.ClassDef):
                info = owners[node] = self.classes[node] = ClassInfo(node, self)
                self.class_names.setdefault(info.name, info)
                continue
            owner = around if isinstance(around, ClassInfo) and not isinstance(node, ast.Lambda) else None
            enclosing = around if isinstance(around, FunctionInfo) else None
            function = owners[node] = self.functions[node] = FunctionInfo(node, self, owner, enclosing)
            if owner is not None:
                owner.methods[function.name] = function
        for node in self.tree.of_type(ast.Yield, ast.YieldFrom):
            function_info = self.function_around(node)
            if function_info is not None:
                function_info.is_generator = True

    def _collect_attributes(self) -> None:
        for node in self.tree.of_type(ast.Assign, ast.AnnAssign, ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for attribute in (item for target in targets for item in assigned_attributes(target)):
                method = self.method_around(node)
                if method is not None and method.owner is not None and method.parameters:
                    if dotted(attribute.value) == method.parameters[0]:
                        method.owner.assigned.setdefault(attribute.attr, set()).add(method.name)
                        if not isinstance(node, ast.AugAssign):
                            method.owner.bound.setdefault(attribute.attr, set()).add(method.name)

    def function_around(self, node: ast.AST) -> FunctionInfo | None:
        """The innermost function around a node (not the node itself), in this module or one that it imports."""
        elsewhere = elsewhere_of(node)
        if elsewhere is not elsewhere_of(self.tree.module):
            tree = elsewhere.tree if elsewhere is not None else None
            others = self.others.followed() if self.others is not None else ()
            return next((item.function_around(node) for item in others if item.tree is tree), None)
        return self._around.get(node)

    @cached_property
    def bindings(self) -> dict[tuple[FunctionInfo | None, str], list[ast.Name]]:
        """The places that bind or delete each variable, by the function around them (None for the module)."""
        found: dict[tuple[FunctionInfo | None, str], list[ast.Name]] = {}
        for node in self.tree.of_type(ast.Name):
            if not isinstance(node.ctx, ast.Load):
                found.setdefault((self.function_around(node), node.id), []).append(node)
        return found

    @cached_property
    def _around(self) -> dict[ast.AST, FunctionInfo | None]:
        """The innermost function around each node that is in one."""
        found: dict[ast.AST, FunctionInfo | None] = {}
        for scope in self.tree.scopes:
            found.update(dict.fromkeys(inside(scope), self.functions.get(scope)))
        return found

    def method_around(self, node: ast.AST) -> FunctionInfo | None:
        """The method around a node, also through nested functions."""
        function = self.function_around(node)
        while function is not None and function.owner is None and function.enclosing is not None:
            function = function.enclosing
        return function

    def assigned_names(self, loop: ast.AST) -> set[str]:
        """The local names that a loop assigns or changes in place."""
        return self._loop_names.get(loop, set())

    @cached_property
    def _loop_names(self) -> dict[ast.AST, set[str]]:
        """The names for each loop, computed for all loops in one pass."""
        found: dict[ast.AST, set[str]] = {}
        if self.tree.by_type.keys().isdisjoint(LOOPS):
            return found
        for node in self.tree.of_type(*ASSIGNING, ast.Expr):
            names = assigned_in(node)
            if not names:
                continue
            for item in (node, *self.tree.ancestors(node)):
                if isinstance(item, LOOPS):
                    found.setdefault(item, set()).update(names)
                elif isinstance(item, SCOPES):
                    break
        return found

    @cached_property
    def _top_level(self) -> dict[str, FunctionInfo]:
        body = self.tree.module.body
        return {node.name: self.functions[node] for node in body if isinstance(node, FUNCTIONS)}

    def binds(self, name: str) -> bool:
        """Whether the module binds a name at its top level."""
        return name in self._bound

    def is_only_defined(self, name: str) -> bool:
        """Whether a name is bound once at the top level, by the definition of a function or class."""
        return self._bound[name] == 1 and (name in self._top_level or name in self.class_names)

    def is_only_imported(self, name: str) -> bool:
        """Whether every binding of a name in the module is an import of the same thing."""
        targets = self.scopes.alternatives.get(name, [])
        return len(set(targets)) == 1 and self._bound[name] == len(targets)

    @cached_property
    def _bound(self) -> Counter[str]:
        """The number of bindings of each name in the module, including branches, loops and `with` blocks."""
        found: Counter[str] = Counter()
        stack: list[ast.AST] = [self.tree.module]
        while stack:
            node = stack.pop()
            if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                found[node.name] += 1
                continue
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                found.update(name for name, _ in imported_by(node) if name != "*")
            found.update(assigned_in(node))
            stack.extend(children(node))
        found.subtract(self._stand_ins)
        return found

    @cached_property
    def constants(self) -> frozenset[str]:
        """Names that the module binds once, at its top level; a user may rerun a notebook's cells with other values."""
        if self.tree.source.is_notebook:
            return frozenset()
        bound = Counter(name for node in self.tree.of_type(*ASSIGNING) for name in assigned_in(node))
        bound.update(name for node in self.tree.of_type(ast.Global) for name in node.names)
        top = {name for node in self.tree.module.body if not isinstance(node, LOOPS) for name in assigned_in(node)}
        return frozenset(name for name in top if bound[name] == 1 and name not in self._stand_ins)

    @cached_property
    def _stand_ins(self) -> list[str]:
        """The name of each statement that binds an import of the module to None in case the import fails."""
        return [item.id for item in self.scopes.stand_ins if self.scopes.is_of_module(item)]

    @cached_property
    def names_of_bases(self) -> set[str]:
        """The last names of all bases of the module's classes."""
        return {base.rpartition(".")[2] for info in self.classes.values() for base in info.bases}

    def class_named(self, name: str) -> ClassInfo | None:
        """The class that a dotted name stands for, from this module or one that it imports."""
        found = self.defined(name)
        return found if isinstance(found, ClassInfo) else None

    def bases(self, info: ClassInfo) -> list[ClassInfo | str]:
        """The base classes of a class; a class of no known module as its qualified name."""
        known = self._bases.get(info)
        if known is None:
            known = self._bases[info] = [self.class_named(name) or self.qualified(name) for name in info.bases]
        return known

    def defined(self, name: str) -> ClassInfo | FunctionInfo | None:
        """The class or function that a dotted name stands for, from this module or one that it imports."""
        found = self.class_names.get(name) or self.function_named(name)
        if found is None and self.others is not None:
            first, dot, rest = name.partition(".")
            target = self.imported(first)
            if target is not None:
                return self.others.defined(f"{target}{dot}{rest}", self)
        return found

    def function_anywhere(self, name: str) -> FunctionInfo | None:
        """The function that a dotted name stands for, also where imports are followed for base classes only."""
        found = self.defined(name)
        first, dot, rest = name.partition(".")
        target = self.imported(first) if found is None and self.others is not None else None
        if target is not None and self.others is not None:
            found = self.others.anywhere(f"{target}{dot}{rest}", self)
        return found if isinstance(found, FunctionInfo) else None

    @cached_property
    def plain_functions(self) -> dict[str, list[FunctionInfo]]:
        """The functions of the module by name, also those inside other functions, without methods."""
        found: dict[str, list[FunctionInfo]] = {}
        for item in self.functions.values():
            if item.owner is None:
                found.setdefault(item.name, []).append(item)
        return found

    def function_named(self, name: str) -> FunctionInfo | None:
        """The top-level function of the module with this name."""
        return self._top_level.get(name)

    def imported(self, name: str) -> str | None:
        """The qualified name of a name that is neither local nor global: imported, builtin, or unknown (None).

        A name that only an `import *` can bind is PyTorch's if that imports from PyTorch. Otherwise `torch`, `nn`,
        `F` and `optim` have their conventional meaning.
        """
        target = self.imports.get(name)
        if target is not None:
            return target
        if hasattr(builtins, name):
            return f"builtins.{name}"
        for module in self.scopes.star_imports:
            if module.startswith("torch"):
                return f"{module}.{name}"
            found = self.others.imported_by_star(module, name, self) if self.others is not None else None
            if found is not None:
                return found
        renamed = name == "torch" and any(item.partition(".")[0] == "torch" for item in self.imports.values())
        return _CONVENTIONAL.get(name) if self.scopes.star_imports or renamed else None

    def names_assigned(self, nodes: Iterable[ast.AST]) -> set[str]:
        """The names that statements bind, including nested statements."""
        return {name for node in nodes for item in walk(node) for name in assigned_in(item)}

    def local_name(self, qualified: str) -> str | None:
        """The module's own spelling of a qualified name, `th.no_grad` for `torch.no_grad`; None without an import."""
        for local, target in self.imports.items():
            if qualified == target or qualified.startswith(f"{target}."):
                return local + qualified[len(target) :]
        return None

    def qualified(self, name: str, at: ast.AST | None = None) -> str:
        """The qualified name of a dotted name, by the imports in effect at a node, or in the module."""
        if not name:
            return ""
        first, dot, rest = name.partition(".")
        bound = self.scopes.binding(first, at) if at is not None else None
        if bound is not None:
            return f"{bound}{dot}{rest}" if bound != LOCAL else f"{LOCAL}.{name}"
        target = None if first in self.class_names or hasattr(builtins, first) else self.imported(first)
        if target is None:
            return name
        return f"{target}{dot}{rest}"

    def named(self, node: ast.expr) -> str:
        """The qualified name of an expression at its place: `torch.no_grad`; empty if it is no name."""
        known = self._names.get(node)
        if known is None:
            known = self._names[node] = self.qualified(dotted(node), node)
        return known


_CONVENTIONAL = {"torch": "torch", "nn": "torch.nn", "F": "torch.nn.functional", "optim": "torch.optim"}


def all_parameters(node: FunctionNode) -> list[ast.arg]:
    """The parameters of a function in order, without `*args` and `**kwargs`."""
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]


def defaults_of(node: FunctionNode) -> dict[str, ast.expr]:
    """The default of each parameter that has one."""
    positional = [*node.args.posonlyargs, *node.args.args]
    found = dict(zip((item.arg for item in reversed(positional)), reversed(node.args.defaults), strict=False))
    keywords = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    return found | {item.arg: default for item, default in keywords if default is not None}
