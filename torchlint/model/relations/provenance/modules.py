"""Expressions that are surely PyTorch modules, and the classes of these modules."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from torchlint.index import FileIndex
from torchlint.model.definitions import ClassInfo, Definitions, FunctionInfo, all_parameters
from torchlint.model.queries import variables
from torchlint.syntax.python_ast import SCOPES, called_name, dotted, walk, without_calls, written_alike

_ANY = "torch.nn.Module"
_BASES = ("torch.nn.", "pytorch_lightning.", "lightning.")
_LISTS = frozenset({"torch.nn.Sequential", "torch.nn.ModuleList"})
_NO_MODULES = frozenset({"Parameter", "ParameterList", "ParameterDict", "UninitializedParameter", "Buffer"})
_SAME = frozenset("to cuda cpu half float double bfloat16 train eval requires_grad_".split())
_PASSING = frozenset({"list", "tuple", "reversed", "tqdm"})
_PARTS = {**dict.fromkeys(("features", "layer1", "layer2", "layer3", "layer4"), "torch.nn.Sequential")}
_PARTS |= dict.fromkeys(("fc", "classifier", "conv1", "bn1", "avgpool", "backbone", "encoder", "heads"), _ANY)
"""Parts of torchvision's networks, with their classes."""
_DEEPEST = 8
"""Maximum depth of names of names, and of parts of parts."""

Kind = ClassInfo | str
"""The class of a module: one of the program, or the qualified name of another one."""


class Modules:
    """Answers about expressions, without interpretation."""

    def __init__(self, definitions: Definitions) -> None:
        self.definitions = definitions
        self.tree = definitions.tree

    def kind(self, node: ast.expr, depth: int = 0) -> Kind | None:
        """The class of the module that an expression surely is; `torch.nn.Module` if only that is known."""
        node = without_calls(node, _SAME)
        if depth > _DEEPEST:
            return None
        if isinstance(node, ast.Call):
            return self._made(node, depth + 1)
        if isinstance(node, ast.Name):
            return self._named(node, depth + 1)
        if isinstance(node, ast.Attribute):
            return self._part(node, depth + 1)
        if isinstance(node, ast.Subscript):
            return _ANY if self.kind(node.value, depth + 1) in _LISTS else None
        return None

    def source(self, node: ast.expr) -> ast.expr:
        """The value over which the loop iterates: `model` of `for layer in model.children()`; else the variable."""
        loop = self._loop(node) if isinstance(node, ast.Name) else None
        over = loop.iter if loop is not None else node
        while isinstance(over, (ast.Call, ast.Subscript)):
            if isinstance(over, ast.Subscript):
                over = over.value
            elif isinstance(over.func, ast.Attribute):
                over = over.func.value
            else:
                over = over.args[0] if over.args else over.func
        return over

    def _made(self, call: ast.Call, depth: int) -> Kind | None:
        info = self.definitions.class_named(dotted(call.func))
        if info is not None:
            return info if _is_module_class(info) else None
        name = self.definitions.named(call.func)
        if _is_of_torch(name):
            return name
        package, _, last = name.rpartition(".")
        if package.startswith("torchvision.models") and (last == "get_model" or not last.startswith(("get_", "list_"))):
            return _ANY if last.islower() else None
        function = self.definitions.function_named(dotted(call.func))
        return self._returned(function, depth) if function is not None else None

    def _returned(self, function: FunctionInfo, depth: int) -> Kind | None:
        returns = [item for item in walk(function.node) if isinstance(item, ast.Return) and item.value is not None]
        if function.decorators or any(isinstance(item, (ast.Yield, ast.YieldFrom)) for item in walk(function.node)):
            return None
        there = self if function.definitions is self.definitions else Modules(function.definitions)
        kinds = [there.kind(item.value, depth) for item in returns if item.value is not None]
        return _common(kinds)

    def _named(self, name: ast.Name, depth: int) -> Kind | None:
        function = self.definitions.function_around(name)
        bound = FileIndex.of(self.tree).bindings_of(name.id)
        own = variables.bindings(name.id, name, self.definitions)
        loop = self._loop(name)
        if loop is not None:
            inside = (item for item in own if item is not loop.target and loop in self.tree.ancestors(item))
            in_target = set(walk(loop.target))
            is_bound_again = any(item not in in_target for item in inside)
            return None if is_bound_again else self._drawn(loop.target, loop.iter, name.id, depth)
        given = [item for item in all_parameters(function.node) if item.arg == name.id] if function is not None else []
        annotated = [self._annotated(given[0].annotation)] if given else []
        if not given and not own and function is not None:
            own = [item for item in bound if self.definitions.function_around(item) is None]
        return self._stored(own, depth, annotated)

    def _annotated(self, annotation: ast.expr | None) -> Kind | None:
        if annotation is None:
            return None
        info = self.definitions.class_named(dotted(annotation))
        if info is not None:
            return info if _is_module_class(info) else None
        name = self.definitions.named(annotation)
        return name if _is_of_torch(name) else None

    def _loop(self, name: ast.Name) -> ast.For | None:
        """The loop around an expression that binds a name."""
        for item in self.tree.ancestors(name):
            if isinstance(item, SCOPES):
                return None
            if isinstance(item, ast.For) and any(_is_name(part, name.id) for part in walk(item.target)):
                return item
        return None

    def _drawn(self, target: ast.expr, over: ast.expr, name: str, depth: int) -> Kind | None:
        while isinstance(over, ast.Subscript) and isinstance(over.slice, ast.Slice):
            over = over.value
        caller = called_name(over) if isinstance(over, ast.Call) else ""
        parts = target.elts if isinstance(target, ast.Tuple) else []
        if isinstance(over, ast.Call) and caller in _PASSING and len(over.args) == 1:
            return self._drawn(target, over.args[0], name, depth)
        if isinstance(over, ast.Call) and caller == "enumerate" and len(parts) == 2 and over.args:
            return self._drawn(parts[1], over.args[0], name, depth)
        if caller in ("named_children", "named_modules"):
            return _ANY if len(parts) == 2 and _is_name(parts[1], name) else None
        if not _is_name(target, name):
            return None
        if isinstance(over, ast.Call) and caller in ("children", "modules"):
            return _ANY if isinstance(over.func, ast.Attribute) else None
        if isinstance(over, (ast.Tuple, ast.List)):
            return _common([self.kind(item, depth) for item in over.elts])
        return _ANY if self.kind(over, depth) in _LISTS else None

    def _part(self, node: ast.Attribute, depth: int) -> Kind | None:
        method = self.definitions.method_around(node)
        is_own = method is not None and method.is_method and dotted(node.value) in method.parameters[:1]
        owner = method.owner if is_own and method is not None else self.kind(node.value, depth)
        if isinstance(owner, ClassInfo):
            return self._assigned(owner, node.attr, depth)
        is_of_torchvision = owner == _ANY and b"torchvision" in self.tree.source.code
        return _PARTS.get(node.attr) if is_of_torchvision else None

    def _assigned(self, owner: ClassInfo, name: str, depth: int) -> Kind | None:
        for info in owner.ancestors():
            stores = list(self.stores(info, name)) if isinstance(info, ClassInfo) else []
            if isinstance(info, ClassInfo) and stores:
                there = self if info.definitions is self.definitions else Modules(info.definitions)
                return there._stored(stores, depth, [])
        return None

    def stores(self, info: ClassInfo, name: str) -> Iterator[ast.Attribute]:
        """The places where a class assigns an attribute."""
        for item in walk(info.node) if name in info.assigned else ():
            if isinstance(item, ast.Attribute) and item.attr == name and isinstance(item.ctx, ast.Store):
                yield item

    def _stored(self, stores: Sequence[ast.expr], depth: int, annotated: list[Kind | None]) -> Kind | None:
        """The common class of all assigned values; None if other code binds one of the targets."""
        kinds = [*annotated]
        for item in stores:
            statement = self.tree.parent(item)
            if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
                return None
            if not _is_moved(statement.value, item):
                kinds.append(self.kind(statement.value, depth))
        return _common(kinds)


def _common(kinds: list[Kind | None]) -> Kind | None:
    """The class common to all of them, or that they all are modules."""
    if not kinds or None in kinds:
        return None
    return kinds[0] if all(kind == kinds[0] for kind in kinds) else _ANY


def _is_moved(value: ast.expr, name: ast.expr) -> bool:
    """`model = model.to(device)`."""
    value = without_calls(value, _SAME)
    return written_alike(value, name)


def _is_of_torch(name: str) -> bool:
    """Whether a qualified name is a module class."""
    package, _, last = name.rpartition(".")
    is_public = package == "torch.nn" or package.startswith(("torch.nn.modules", "torch.nn.parallel"))
    return is_public and last[:1].isupper() and last not in _NO_MODULES


def _is_module_class(info: ClassInfo) -> bool:
    bases = [item for item in info.ancestors() if isinstance(item, str)]
    return any(_is_of_torch(item) or (item.startswith(_BASES) and item.endswith("Module")) for item in bases)


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
