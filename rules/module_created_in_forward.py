"""Layers and parameters that `forward` creates at every call."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.files.words import words_of
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import moved_modules, torch_classes
from torchlint.pytorch import api, stateful_modules
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.model.definitions import FunctionInfo
    from torchlint.syntax.python_ast import Site

_PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter"})
_FUNCTION = LazyPattern(rb"\bdef ")
_OF_DATA = frozenset("tensor from_numpy as_tensor load from_dlpack frombuffer asarray".split())
"""Functions that build a tensor from existing data."""
_SAME_DATA = frozenset("to cuda cpu half float double bfloat16 view reshape unsqueeze".split())
_TRANSPARENT = frozenset(
    "no_grad enable_grad inference_mode autocast custom_fwd custom_bwd ignore unused export script_method compile "
    "disable override final abstractmethod classmethod".split()
)
"""Decorators that run the method in each call; another one may store its first result."""
_OTHER_TRAINING = frozenset("backward grad step".split())
"""Calls that show that the new object is optimized here."""


def _is_meta(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == "meta"


class MadeInForward(NamedTuple):
    """`forward` creates and uses a layer or parameter; it owns "weights" or "statistics", or is a "parameter"."""

    site: Site
    name: str
    owned: str
    method: str


class ModuleCreatedInForward(Rule):
    """A layer or parameter is created in `forward`: it is new in every call.

    ## What it does
    Finds layers of `torch.nn` and `nn.Parameter`s that `forward` creates, uses and discards in each call. The same
    holds for methods that only `forward` calls, unless a decorator may store their result. The layers have weights or
    running statistics.

    Not reported: layers without state, such as `nn.ReLU`, `nn.Softmax`, losses, pooling, and norms without `affine`.

    ## Why is this bad?
    Every call uses new random weights. No optimizer holds them, so they are never trained. `state_dict` does not save
    them, and `model.to(device)` does not move them.

    ## Example
    ```python
    from torch import nn

    class Mixer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 8)

        def forward(self, x):
            return nn.Linear(8, 4)(self.inner(x))
    ```

    Use instead:
    ```python
    from torch import nn

    class Mixer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 8)
            self.outer = nn.Linear(8, 4)

        def forward(self, x):
            return self.outer(self.inner(x))
    ```

    ## What verify shows
    `torchlint verify` tracks the object that the line creates. It confirms the finding if the object disappears, the
    line creates it again, and no optimizer held it. It refutes the finding if the object stays and later calls to the
    function do not create another one.

    ## References
    - [torch.nn.Module](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html)
    """

    code = "TL308"
    category = Category.CORRECTNESS
    triggers = (
        (b"forward",),
        (b"torch",),
        (b"Parameter", b"Norm", *sorted(map(str.encode, stateful_modules.WEIGHTED))),
    )

    @classmethod
    def may_fire(cls, code: bytes) -> bool:
        """Whether the file creates a layer anywhere except in `__init__`."""
        names = _ENCODED & words_of(code).names
        parts = _FUNCTION.split(code) if names else []
        return any(name in part for part in parts for name in names if not part.startswith(b"__init__"))

    def ask(self) -> Iterator[MadeInForward]:
        definitions = self.model.definitions
        if self.model.is_test:
            return
        for call in self.model.tree.of_type(ast.Call):
            if isinstance(call.func, ast.Attribute) and call.func.attr not in _NAMES:
                continue  # only a plain name may be another name for one of them
            name = definitions.named(call.func)
            if name.startswith("torch.nn."):
                function = definitions.function_around(call)
                if function is not None and self._is_of_forward(function):
                    yield from self._made(call, name, function)

    def _is_of_forward(self, function: FunctionInfo) -> bool:
        """Whether a function is the `forward` of a module, or a method called only by it."""
        if function.owner is None or function.has_decorator("staticmethod") or function.has_decorator("property"):
            return False
        is_of_forward = function.name == "forward" or self._is_only_called_by_forward(function)
        return is_of_forward and torch_classes.is_module_class(function.owner)  # this may read other files

    def _is_only_called_by_forward(self, method: FunctionInfo) -> bool:
        if any(name.rpartition(".")[2] not in _TRANSPARENT for name in method.decorator_names):
            return False
        callers = self._users.get(method.name, ())
        return bool(callers) and all(
            caller is not None and caller.name == "forward" and caller.owner is method.owner for caller in callers
        )

    @cached_property
    def _users(self) -> dict[str, set[FunctionInfo | None]]:
        """The functions that name each attribute; None for statements outside of functions."""
        found: dict[str, set[FunctionInfo | None]] = {}
        for node in self.model.tree.of_type(ast.Attribute):
            found.setdefault(node.attr, set()).add(self.model.definitions.function_around(node))
        return found

    def _made(self, call: ast.Call, name: str, function: FunctionInfo) -> Iterator[MadeInForward]:
        last = name.rpartition(".")[2]
        if name in _PARAMETERS:
            if self._is_fresh(call) and not _trains(function) and self._is_operand(call, function):
                yield MadeInForward(python_ast.site_of(call), last, "parameter", function.name)
            return
        if any(item.arg == "device" and _is_meta(item.value) for item in call.keywords):
            return  # this computes a shape
        owned = stateful_modules.owned(last, call)
        whole = self._in_sequential(call)
        if owned and self._is_called(moved_modules.moved(whole, self.model.tree), function):
            name = python_ast.called_name(whole) if whole is not call else last
            yield MadeInForward(python_ast.site_of(whole), name, owned, function.name)

    # -- layers ----------------------------------------------------------------------------------------

    def _in_sequential(self, call: ast.Call) -> ast.Call:
        """A layer, or the outermost `Sequential` that contains it."""
        parent = self.model.tree.parent(call)
        if isinstance(parent, ast.Call) and call in parent.args and self._is_sequential(parent):
            return self._in_sequential(parent)
        return call

    def _is_sequential(self, call: ast.Call) -> bool:
        return self.model.definitions.named(call.func) == "torch.nn.Sequential"

    def _is_called(self, made: ast.expr, function: FunctionInfo) -> bool:
        """Whether the code calls a layer directly, or through a local name with no other use."""
        parent = self.model.tree.parent(made)
        if isinstance(parent, ast.Call):
            return parent.func is made
        name = _name_bound(parent, made)
        loads = _loads(name, function) if name else []
        kinds = [self._use_of_layer(load) for load in loads]
        return "call" in kinds and "other" not in kinds

    def _use_of_layer(self, load: ast.Name) -> str:
        tree = self.model.tree
        node = moved_modules.moved(load, self.model.tree)
        parent = tree.parent(node)
        if isinstance(parent, ast.Call) and parent.func is node:
            return "call"
        if node is load:
            return "other"
        stays = isinstance(parent, ast.Expr) or _name_bound(parent, node) == load.id
        return "move" if stays else "other"

    # -- parameters ------------------------------------------------------------------------------------

    def _is_fresh(self, call: ast.Call) -> bool:
        """Whether a parameter is built from new numbers, and may be trained."""
        if len(call.args) != 1 or not all(python_ast.is_literal(item.value, True) for item in call.keywords):
            return False
        node: ast.expr = call.args[0]
        while isinstance(node, (ast.Call, ast.BinOp)):
            if isinstance(node, ast.BinOp):
                node = node.left if isinstance(node.right, ast.Constant) else node.right
                continue
            name = self.model.definitions.named(node.func)
            if name.startswith("torch.") and name.rpartition(".")[2] in api.CREATORS - _OF_DATA:
                return True
            is_method = isinstance(node.func, ast.Attribute) and node.func.attr in _SAME_DATA
            if is_method:
                assert isinstance(node.func, ast.Attribute)
                node = node.func.value
            elif name.startswith("torch.nn.init.") and node.args:
                node = node.args[0]
            else:
                return False
        return False

    def _is_operand(self, made: ast.expr, function: FunctionInfo) -> bool:
        """Whether a parameter is an operand, directly or through a local name with no other use."""
        parent = self.model.tree.parent(made)
        name = _name_bound(parent, made)
        if not name:
            return self._is_computed_with(made)
        loads = _loads(name, function)
        return bool(loads) and all(map(self._is_computed_with, loads))

    def _is_computed_with(self, node: ast.expr) -> bool:
        tree = self.model.tree
        parent, statement = tree.parent(node), tree.statement(node)
        if isinstance(statement, ast.Assign) and any(not isinstance(item, ast.Name) for item in statement.targets):
            return False  # the result may be stored
        if isinstance(parent, ast.Attribute):
            call = tree.parent(parent)
            is_call = isinstance(call, ast.Call) and call.func is parent
            return is_call and parent.attr in api.TENSOR_METHODS and not parent.attr.endswith("_")
        while isinstance(parent, (ast.List, ast.Tuple)):
            node, parent = parent, tree.parent(parent)
        if isinstance(parent, ast.Call):
            return parent.func is not node and api.operator_name(self.model.definitions.named(parent.func)) is not None
        return isinstance(parent, (ast.BinOp, ast.UnaryOp)) and not isinstance(node, (ast.List, ast.Tuple))

    def report_MadeInForward(self, made: MadeInForward) -> None:
        never = "it is" if made.owned == "parameter" else f"its {made.owned} are"
        self.report(
            made.site,
            f"each call to `{made.method}` creates a new `{made.name}`: {never} never trained or saved",
            help="create it in `__init__`, and store it on `self`",
        )


_NAMES = stateful_modules.WEIGHTED | stateful_modules.NORMS.keys() | {"Parameter"}
_ENCODED = frozenset(name.encode() for name in _NAMES)
"""The last names of objects that own parameters or statistics."""


def _name_bound(statement: ast.AST | None, value: ast.expr) -> str:
    """The one local name to which a statement or expression assigns a value."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target: ast.expr = statement.targets[0]
    elif isinstance(statement, (ast.AnnAssign, ast.NamedExpr)) and statement.value is value:
        target = statement.target
    else:
        return ""
    return target.id if isinstance(target, ast.Name) else ""


def _loads(name: str, function: FunctionInfo) -> list[ast.Name]:
    """The reads of a local name in a function; none for other names."""
    nodes = list(python_ast.walk(function.node))
    if any(isinstance(node, (ast.Global, ast.Nonlocal)) and name in node.names for node in nodes):
        return []
    names = [node for node in nodes if isinstance(node, ast.Name) and node.id == name]
    return [node for node in names if isinstance(node.ctx, ast.Load)]


def _trains(function: FunctionInfo) -> bool:
    """Whether a function goes backward or steps, so that it may optimize objects that it creates."""
    calls = (node for node in python_ast.walk(function.node) if isinstance(node, ast.Call))
    return any(python_ast.called_name(call) in _OTHER_TRAINING for call in calls)
