"""Modules whose `__init__` does not start with the `__init__` of `nn.Module`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule, Safety, edits
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import definitions
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.nn.Buffer"})
_PLAIN_BASES = frozenset({"object", "builtins.object", "abc.ABC", "typing.Generic", "typing.Protocol"})
_REGISTERING = frozenset("register_buffer register_parameter register_module add_module".split())
"""Module methods that require an initialized module."""
_OWN_WAYS = frozenset("__setattr__ __getattr__ __getattribute__ __new__ __init_subclass__ __post_init__".split())

_PLAIN_START = LazyPattern(
    rb"def __init__\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)[^:\n]*:"
    rb"(?:\s|#[^\n]*\n|\"\"\"(?:(?!\"\"\")[\s\S])*\"\"\")*super\([^()\n]*\)\.__init__\("
)
"""An `__init__` that starts with a call to the parent's `__init__`."""


class ChildTooEarly(NamedTuple):
    """The code assigns `child` before `init`, the call to the base class's `__init__`."""

    child: Site
    init: Site
    name: str


class NoInit(NamedTuple):
    """The `__init__` at `site` of the class `name` assigns `child`, but never calls the base class's `__init__`."""

    site: Site
    child: Site
    name: str


class SuperInitOrder(Rule):
    """A module assigns layers before or without calling `super().__init__()`.

    ## What it does
    Finds classes derived from `nn.Module` whose `__init__` assigns a layer or `nn.Parameter` before it calls
    `super().__init__()`, or without ever calling it.

    ## Why is this bad?
    `nn.Module.__init__` creates the dictionaries that store layers and parameters. Before that call, the assignment
    raises "cannot assign module before Module.__init__() call", so the program cannot create the model.

    ## Example
    ```python
    import torch.nn as nn

    class Net(nn.Module):
        def __init__(self, width):
            self.layer = nn.Linear(width, width)
            super().__init__()
    ```

    Use instead:
    ```python
    import torch.nn as nn

    class Net(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.layer = nn.Linear(width, width)
    ```

    ## Fix safety
    The fix is safe, because the class was unusable before. torchlint offers it only where `super().__init__()` is
    called without arguments and the parent class's `__init__` needs none.

    ## What verify shows
    `torchlint verify` confirms the finding if PyTorch raises an error at the line. It refutes the finding if the
    line ran three times without an error.

    ## References
    - [torch.nn.Module](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html): "an __init__() call to the
      parent class must be made before assignment on the child"
    """

    code = "TL811"
    category = Category.CORRECTNESS
    triggers = ((b"torch", b"lightning"), (b"class",), (b"__init__",))

    @classmethod
    def may_fire(cls, code: bytes) -> bool:
        """Whether code comes between the head of an `__init__` and the call to the parent's `__init__`."""
        return code.count(b"def __init__") > len(_PLAIN_START.findall(code))

    def ask(self) -> Iterator[ChildTooEarly | NoInit]:
        for info in self.model.definitions.classes.values():
            method = info.methods.get("__init__")
            if method is not None and method.is_method and method.parameters and self._is_module(info):
                yield from self._answers(info, method)

    def _answers(
        self, info: definitions.ClassInfo, method: definitions.FunctionInfo
    ) -> Iterator[ChildTooEarly | NoInit]:
        child, init = _first_child(method.node, method.parameters[0], self._makes_child)
        if child is None:
            return
        if init is None and not self._is_hook(method):
            yield NoInit(python_ast.site_of(method.node), python_ast.site_of(child), info.name)
        if isinstance(init, ast.Call) and _is_init(init):
            yield ChildTooEarly(python_ast.site_of(child), python_ast.site_of(init), child.attr)

    def _is_hook(self, method: definitions.FunctionInfo) -> bool:
        """Whether the class may be unusable on purpose, because it is in a test or its `__init__` is decorated."""
        return self.model.is_test or bool(method.decorators)

    def _is_module(self, info: definitions.ClassInfo) -> bool:
        """Whether a class surely derives from `nn.Module`, without unknown bases."""
        above = list(info.ancestors())
        known = [item for item in above if isinstance(item, definitions.ClassInfo)]
        names = [item for item in above if isinstance(item, str) and item not in _PLAIN_BASES]
        if (
            info.node.decorator_list
            or any(item.node.keywords for item in known)  # a metaclass may call the missing `__init__`
            or any(not _OWN_WAYS.isdisjoint(item.methods) for item in known)
        ):
            return False
        if any(isinstance(base, (ast.Call, ast.Subscript)) for item in known for base in item.node.bases):
            return False
        return bool(names) and all(_is_module_class(name) for name in names)

    def _makes_child(self, value: ast.Call) -> bool:
        written = python_ast.dotted(value.func)
        name = self.model.definitions.qualified(written, value)
        if name in _PARAMETERS or (_is_module_class(name) and name.rpartition(".")[2] != "Module"):
            return True
        local = self.model.definitions.class_named(written)
        return (
            local is not None
            and self.model.definitions.scopes.binding(written, value) is None
            and self._is_module(local)
        )

    # -- report ---------------------------------------------------------------------------------------

    def report_ChildTooEarly(self, answer: ChildTooEarly) -> None:
        self.report(
            answer.child,
            f"`{answer.name}` is assigned before `nn.Module` is initialized: this raises an `AttributeError`",
            related=[(answer.init, "it is initialized here")],
            help="call `super().__init__()` first",
            fix=self._moved(answer),
        )

    def _moved(self, answer: ChildTooEarly) -> edits.Change | None:
        tree = self.model.tree
        code, call = tree.code(answer.init), tree.node(answer.init)
        same_block = tree.statement(call) in tree.block(tree.node(answer.child))
        if not same_block or not tree.stands_alone(call) or not code.endswith("__init__()"):
            return None
        old = self.written(answer.init)
        new = self.written(answer.child)
        if old is None or new is None:
            return None
        return edits.Change(
            "call `super().__init__()` first", [edits.Delete(old), edits.InsertBefore(new, code)], Safety.SAFE
        )

    def report_NoInit(self, answer: NoInit) -> None:
        self.report(
            answer.site,
            f"`{answer.name}` never calls `super().__init__()`, so it cannot register its layers",
            related=[(answer.child, "this raises an `AttributeError`")],
            help="call `super().__init__()` first",
            fix=self._added(answer),
        )

    def _added(self, answer: NoInit) -> edits.Change | None:
        new = self.written(answer.child)
        tree = self.model.tree
        function = tree.node(answer.site)
        in_body = isinstance(function, ast.FunctionDef) and tree.statement(tree.node(answer.child)) in function.body
        if new is None or not in_body or not self._takes_nothing(function):
            return None
        return edits.Change("call `super().__init__()`", [edits.InsertBefore(new, "super().__init__()")], Safety.SAFE)

    def _takes_nothing(self, function: ast.AST) -> bool:
        """Whether the next `__init__` in the method resolution order needs no arguments."""
        info = self.model.definitions.functions[function].owner if isinstance(function, ast.FunctionDef) else None
        for above in list(info.ancestors())[1:] if info is not None else ():
            if isinstance(above, str):
                if above not in _PLAIN_BASES:
                    return above.rpartition(".")[2] in ("Module", "LightningModule")
            elif "__init__" in above.methods:
                node = above.methods["__init__"].node
                needed = len(node.args.posonlyargs) + len(node.args.args) - len(node.args.defaults)
                return needed <= 1 and None not in node.args.kw_defaults
        return False


def _first_child(
    function: ast.AST, receiver: str, makes_child: Callable[[ast.Call], bool]
) -> tuple[ast.Attribute | None, ast.AST | None]:
    """The first module or parameter assigned before any possible initialization, and that initialization.

    After such a child, only a call to `__init__` matters, because any other call comes after the error.
    """
    child, nodes = None, list(_in_order(function))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    harmless = set(_REGISTERING)
    for node in nodes:
        is_handed_on = isinstance(node, ast.Attribute) and node.attr == "__init__" and id(node) not in called
        if is_handed_on or (isinstance(node, ast.Call) and _ends_search(node, receiver, child, harmless)):
            return child, node
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            harmless.add(node.attr)  # not a method of the class: its call does not get the object
        if child is None and isinstance(node, (ast.Assign, ast.AnnAssign)):
            child = _own_target(node, receiver) if _calls(node.value, makes_child) else None
    return child, None


def _calls(value: ast.expr | None, makes_child: Callable[[ast.Call], bool]) -> bool:
    return isinstance(value, ast.Call) and makes_child(value)


def _own_target(node: ast.Assign | ast.AnnAssign, receiver: str) -> ast.Attribute | None:
    """The assigned attribute of the receiver."""
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == receiver:
            return target
    return None


def _in_order(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function in execution order, without nested definitions; a statement's calls come first."""
    for node in python_ast.children(function):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.arguments)):
            continue
        yield from _in_order(node)
        yield node


def _is_init(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "__init__"


def _is_super(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "super"


def _may_initialize(call: ast.Call, receiver: str, harmless: Collection[str]) -> bool:
    """Whether a call runs an `__init__`, gets the object, or is one of its methods and may initialize it."""
    if _is_super(call):
        return False
    given = python_ast.arguments(call)
    if _is_init(call) or any(_is_receiver(item, receiver) for item in given):
        return True
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if isinstance(owner, ast.Name) and owner.id == receiver:
        return python_ast.called_name(call) not in harmless
    return isinstance(owner, ast.Call) and _is_super(owner)


def _ends_search(call: ast.Call, receiver: str, child: ast.Attribute | None, harmless: Collection[str]) -> bool:
    return _is_init(call) if child is not None else _may_initialize(call, receiver, harmless)


def _is_receiver(node: ast.expr, receiver: str) -> bool:
    """Whether a node is the object itself, or `super()`."""
    return (isinstance(node, ast.Call) and _is_super(node)) or (isinstance(node, ast.Name) and node.id == receiver)


def _is_module_class(name: str) -> bool:
    module, _, last = name.rpartition(".")
    known = module == "torch.nn" or module.startswith("torch.nn.modules")
    lightning = last == "LightningModule" and module.partition(".")[0] in ("lightning", "pytorch_lightning")
    return (known and last[:1].isupper() and last not in ("Parameter", "Buffer")) or lightning
