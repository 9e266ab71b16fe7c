"""The effects that a module's layers have in training only: dropout, batch statistics."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TypeAlias

from torchlint.index import FileIndex
from torchlint.model.definitions import ClassInfo, Definitions, defaults_of
from torchlint.model.imports import Imports
from torchlint.model.program import Program
from torchlint.model.values import (
    Container,
    External,
    Module,
    Parameter,
    Phi,
    Unknown,
    Value,
    class_of,
    inputs_of,
    resolved,
)
from torchlint.pytorch import api
from torchlint.syntax.python_ast import called_name, dotted, is_literal, walk
from torchlint.syntax.python_tree import PythonTree

Given: TypeAlias = Mapping[str, ast.expr]
"""The parameters of a function with their constants: the argument, or else the default."""


_ALL_LAYERS = frozenset("children named_children modules named_modules _modules __dict__".split())
"""The methods and attributes that give all layers of a module, whatever their names."""


class TrainingLayers:
    """Answers about layers that behave differently in training and in evaluation."""

    def __init__(self, program: Program, imports: Imports | None = None) -> None:
        """`imports` gives the classes of the repository, followed or not."""
        self._program = program
        self._imports = imports
        self._attributes_read: dict[ClassInfo, frozenset[str] | None] = {}

    def lost(self, module: Value) -> str | None:
        """The training-only effect of a layer of a module, sure for each possible module; None if nothing is known."""
        options = list(inputs_of(module))
        if self._may_be_replaced(options):
            return None
        found = [self._lost(option, set()) for option in options]
        return found[0] if found and all(found) else None

    def is_unseen(self, module: Value) -> bool:
        """Whether the layers of a module are unknown, so that torchlint cannot tell whether its mode matters."""
        options = list(inputs_of(module))
        return all(map(_is_of_any_class, options)) and not self._may_be_replaced(options)

    def has_unseen_part(self, module: Value) -> bool:
        """Whether a class of the program runs a part whose layers are unknown: an argument of its `__init__`."""
        info = module.info if isinstance(module, Module) else None
        if info is None:
            return False
        called = {dotted(node.func) for node in walk(info.node) if isinstance(node, ast.Call)}
        parts = self._program.attributes_of(info).items()
        return any(f"self.{name}" in called and isinstance(resolved(part), Parameter) for name, part in parts)

    def _may_be_replaced(self, options: list[Value]) -> bool:
        homes = [item.info.definitions.tree for item in options if isinstance(item, Module) and item.info is not None]
        return any(FileIndex.of(tree).replaces_layers for tree in (self._program.tree, *homes))

    def lost_by_part(self, part: Value, whole: Value) -> str | None:
        """The training-only effect of a layer of a part; for a part that `__init__` receives, of the whole's inputs."""
        if isinstance(part, Parameter):
            return self._lost_by_handed(whole, set()) if isinstance(whole, Module) else None
        options = list(inputs_of(part))
        if self._may_be_replaced(options):
            return None
        found = [self._lost(option, set(), self._outer(option, whole)) for option in options]
        if isinstance(part, Phi) and part.source is not None:  # in a loop over a list, each of them
            return next((lost for lost in found if lost is not None), None)
        return found[0] if found and all(found) else None

    def _outer(self, part: Value, whole: Value) -> Given | None:
        """The arguments of the whole, if its `__init__` makes the part."""
        info, made = class_of(whole), self._program.tree.node(part.site)
        if not isinstance(whole, Module) or info is None or made is None:
            return None
        if info.definitions.method_around(made) is not info.methods.get("__init__"):
            return None
        call = self._program.tree.node(whole.site)
        around = _by_default(call, self._program.definitions_of(call)) if call is not None else {}
        return _given(info, call, around, self._program.tree)

    def _lost(self, module: Value, done: set[ClassInfo], outer: Given | None = None) -> str | None:
        """The training-only effect; `outer` has the arguments of the function that creates the module, if known."""
        if isinstance(module, Module):
            made = self._program.tree.node(module.site)
            if outer is None:
                outer = _by_default(made, self._program.definitions_of(made)) if made is not None else {}
            if module.info is not None:
                given = _given(module.info, made, outer, self._program.tree)
                lost = self._lost_by_class(module.info, given, set()) or self._lost_by_parts(module.info, given, done)
                return lost or self._lost_by_handed(module, done)
            name = module.name.rpartition(".")[2]
            inside = (self._lost(item, done, outer) for item in self._contents(module))
            if isinstance(made, ast.Call) and _may_do_nothing(made, outer, self._program.tree):
                return None
            return api.MODE_DEPENDENT.get(name) or next((lost for lost in inside if lost is not None), None)
        callee, call = module.callee if isinstance(module, Unknown) else None, self._program.tree.node(module.site)
        if not isinstance(callee, External) or not isinstance(call, ast.Call):
            return None
        return _lost_by_model(callee.name, call, self._program.tree) or self._lost_by_import(callee, call)

    def _lost_by_import(self, callee: External, call: ast.Call) -> str | None:
        """The training-only effect of a layer of a class in another file."""
        found = self._imports.defined(callee.name, self._program.definitions) if self._imports is not None else None
        if not isinstance(found, ClassInfo):
            return None
        return self._lost_by_class(found, _given(found, call, {}, self._program.tree), set())

    def _lost_by_parts(self, info: ClassInfo, given: Given, done: set[ClassInfo]) -> str | None:
        """The training-only effect of a PyTorch layer that `__init__` gets from functions."""
        if info in done:
            return None
        done.add(info)
        attributes = self._program.attributes_of(info).items()
        parts = (resolved(part) for name, part in attributes if not self._are_unread({name}, info))
        made = (part for part in parts if isinstance(part, Module) and part.info is None)
        found = (self._lost(part, done, given) for part in made)
        return next((lost for lost in found if lost is not None), None)

    def _contents(self, module: Module) -> Iterator[Value]:
        """The values that a module receives, directly or in a list that is written in the call."""
        made = self._program.tree.node(module.site)
        for item in map(resolved, module.parents):
            if isinstance(item, Container):
                yield from (part for part in map(resolved, item.elements()) if self._is_written_in(part, made))
            else:
                yield item

    def _is_written_in(self, part: Value, made: ast.AST | None) -> bool:
        """Whether a call contains the creation of a layer, and no condition decides about it."""
        node = self._program.tree.node(part.site)
        if node is None or made is None:
            return False
        for outer in self._program.definitions_of(node).tree.ancestors(node):
            if outer is made:
                return True
            if isinstance(outer, (ast.IfExp, ast.comprehension)):
                return False
        return False

    def _lost_by_handed(self, module: Module, done: set[ClassInfo]) -> str | None:
        """The training-only effect of a module that a class receives, directly or in a list."""
        handed = chain.from_iterable(
            item.elements() if isinstance(item, Container) else (item,) for item in map(resolved, module.parents)
        )
        inner = (item for item in map(resolved, handed) if isinstance(item, Module))
        return next((lost for item in inner if (lost := self._lost(item, done)) is not None), None)

    def _lost_by_class(self, info: ClassInfo, given: Given, done: set[ClassInfo]) -> str | None:
        """The training-only effect of a layer that the methods of a class surely make; `given` are its arguments."""
        done.add(info)
        for node in walk(info.node):
            if isinstance(node, ast.Call) and not self._is_left_over(node, info):
                method = info.definitions.method_around(node)
                known = given if method is info.methods.get("__init__") else _by_default(node, info.definitions)
                lost = None if _is_conditional(node, info, known) else self._lost_by_call(node, info, known, done)
                if lost is not None:
                    return lost
            if isinstance(node, ast.If) and _computes_by_mode(node, info):
                return "the code that `self.training` switches on"
        return None

    def _is_left_over(self, call: ast.Call, info: ClassInfo) -> bool:
        """Whether a layer becomes an attribute that no method of its class reads, by name or through all layers."""
        statement = info.definitions.tree.statement(call)
        targets = statement.targets if isinstance(statement, ast.Assign) else ()
        names = {item.attr for item in targets if isinstance(item, ast.Attribute) and dotted(item.value) == "self"}
        return bool(names) and self._are_unread(names, info)

    def _are_unread(self, names: set[str], info: ClassInfo) -> bool:
        """Whether no method of a class reads any of these attributes, by name or through all layers."""
        if "forward" not in info.methods:
            return False
        if info not in self._attributes_read:
            self._attributes_read[info] = _attributes_read(info)
        read = self._attributes_read[info]
        return read is not None and names.isdisjoint(read)

    def _lost_by_call(self, call: ast.Call, info: ClassInfo, given: Given, done: set[ClassInfo]) -> str | None:
        name = dotted(call.func)
        qualified = info.definitions.qualified(name, call)
        if qualified.startswith("torch.nn.functional."):
            switches = (dotted(item.value) for item in call.keywords if item.arg == "training")
            return api.DROPOUT if any(item.endswith(".training") for item in switches) else None
        if api.package(qualified) == "torch":
            lost = api.MODE_DEPENDENT.get(qualified.rpartition(".")[2])
            return None if _may_do_nothing(call, given, info.definitions.tree) else lost
        if (lost := _lost_by_model(qualified, call, info.definitions.tree)) is not None:
            return lost
        other = info.definitions.class_named(name)
        if other is None or other in done:
            return None
        return self._lost_by_class(other, _given(other, call, given, info.definitions.tree), done)


def _is_of_any_class(module: Value) -> bool:
    """Whether a module may be of any class: a parameter, perhaps with the annotation `nn.Module`."""
    if not isinstance(module, Module):
        return isinstance(module, Unknown)
    return module.info is None and not module.parents and module.name == module.label


def _lost_by_model(name: str, call: ast.Call, tree: PythonTree) -> str | None:
    """The effect of a ready-made model in training only; a file that replaces its classifier removes the dropout."""
    first = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
    if api.drops_by_default(name, first):
        is_told = any(item.arg is None or "drop" in item.arg or item.arg == "config" for item in call.keywords)
        return None if is_told else api.PRETRAINED_DROPOUT
    lost = api.lost_by_model(name)
    if lost != api.DROPOUT:
        return lost
    is_replaced = any(dotted(node.value) != "self" for node in FileIndex.of(tree).stores_of("classifier"))
    return None if is_replaced else lost


class _Perhaps(ast.Constant):
    """A default of a function whose call is not known."""


def _by_default(node: ast.AST, inside: Definitions) -> Given:
    """The defaults of the method around a node."""
    around = inside.method_around(node)
    return _perhaps(defaults_of(around.node)) if around is not None else {}


def _perhaps(defaults: Given) -> Given:
    return {name: _Perhaps(item.value) if isinstance(item, ast.Constant) else item for name, item in defaults.items()}


def _given(info: ClassInfo, made: ast.AST | None, outer: Given, tree: PythonTree) -> Given:
    """The parameters of a class's `__init__` where a call makes an object; the caller's own parameters have `outer`."""
    init = info.methods.get("__init__")
    if init is None:
        return {}
    found = defaults_of(init.node)
    is_written_out = isinstance(made, ast.Call) and all(item.arg is not None for item in made.keywords)
    if not isinstance(made, ast.Call) or any(isinstance(item, ast.Starred) for item in made.args):
        return _perhaps(found)
    found = found if is_written_out else dict(_perhaps(found))
    by_position = zip(init.parameters[1:], made.args, strict=False)
    by_keyword = ((item.arg, item.value) for item in made.keywords if item.arg is not None)
    for name, argument in (*by_position, *by_keyword):
        value = argument
        if isinstance(argument, ast.Name):
            value = outer.get(argument.id) or _constant(argument, tree) or argument
        elif isinstance(argument, ast.Attribute) and argument.attr in _options_of_zero(tree):
            value = ast.Constant(0)
        if isinstance(value, ast.Constant):
            found[name] = value
        else:
            found.pop(name, None)
    return found


def _may_do_nothing(call: ast.Call, given: Given, tree: PythonTree) -> bool:
    """Whether a layer may have no effect: its probability is or may be 0, or it keeps no statistics."""
    if any(item.arg == "track_running_stats" and not is_literal(item.value, True) for item in call.keywords):
        return True  # it also uses the batch's statistics in evaluation
    share = next((item.value for item in call.keywords if item.arg in ("p", "dropout")), None)
    if share is None and call.args and called_name(call).endswith(("Dropout", "1d", "2d", "3d")):
        share = call.args[0]
    if isinstance(share, ast.Name):
        share = given.get(share.id) or _constant(share, tree)
    return _is_zero(share) or (isinstance(share, ast.Attribute) and share.attr in _options_of_zero(tree))


def _is_zero(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def _constant(name: ast.Name, tree: PythonTree) -> ast.expr | None:
    """The value that the only binding of a module-level name assigns; None if that is not known."""
    bound = FileIndex.of(tree).bindings_of(name.id)
    statement = tree.parent(bound[0]) if len(bound) == 1 and tree.function_around(bound[0]) is None else None
    return statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else None


def _options_of_zero(tree: PythonTree) -> set[str]:
    """Command-line options whose default is 0."""
    calls = FileIndex.of(tree).calls_named("add_argument")
    asked = [call for call in calls if any(item.arg == "default" and _is_zero(item.value) for item in call.keywords)]
    names = (item.value for call in asked for item in call.args if isinstance(item, ast.Constant))
    return {name.lstrip("-").replace("-", "_") for name in names if isinstance(name, str)}


def _computes_by_mode(branch: ast.If, info: ClassInfo) -> bool:
    """Whether `forward` returns or assigns something else under `if self.training:`, except for checkpointing."""
    forward = info.methods.get("forward")
    inner = branch.test.operand if isinstance(branch.test, ast.UnaryOp) else branch.test
    if dotted(inner) != "self.training" or info.definitions.method_around(branch) is not forward:
        return False
    inside = [node for statement in (*branch.body, *branch.orelse) for node in walk(statement)]
    if any(isinstance(node, ast.Call) and "checkpoint" in called_name(node) for node in inside):
        return False
    return any(isinstance(node, (ast.Return, ast.Assign, ast.AugAssign)) for node in inside)


def _is_conditional(call: ast.Call, info: ClassInfo, given: Given) -> bool:
    """Whether a layer may be left out: `nn.Dropout(p) if p else nn.Identity()`."""
    inside: ast.AST = call
    for node in info.definitions.tree.ancestors(call):
        if node is info.node:
            break
        if isinstance(node, (ast.If, ast.IfExp, ast.Match)):
            chosen = _chosen(node, given)
            if inside is not chosen and inside not in (chosen if isinstance(chosen, list) else ()):
                return True
        inside = node
    return False


def _chosen(branch: ast.If | ast.IfExp | ast.Match, given: Given) -> ast.expr | list[ast.stmt] | None:
    """The arm that runs where a condition compares a known argument with a constant; None if that is not known."""
    test = branch.test if isinstance(branch, (ast.If, ast.IfExp)) else None
    if not isinstance(test, ast.Compare) or len(test.ops) > 1 or not isinstance(test.ops[0], (ast.Eq, ast.NotEq)):
        return None
    known = given.get(test.left.id) if isinstance(test.left, ast.Name) else None
    other = test.comparators[0]
    if not isinstance(known, ast.Constant) or isinstance(known, _Perhaps) or not isinstance(other, ast.Constant):
        return None
    holds = (known.value == other.value) is isinstance(test.ops[0], ast.Eq)
    assert isinstance(branch, (ast.If, ast.IfExp))
    return branch.body if holds else branch.orelse


def _attributes_read(info: ClassInfo) -> frozenset[str] | None:
    """The attributes that methods of a class read; None if they may read any: `getattr(self, name)`."""
    nodes = list(walk(info.node))
    if any(isinstance(node, ast.Call) and called_name(node) in ("getattr", "vars") for node in nodes):
        return None
    read = frozenset(node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load))
    return read if read.isdisjoint(_ALL_LAYERS) else None
