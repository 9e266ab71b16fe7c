"""Tensor methods whose result is discarded."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule, edits
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import events, values
from torchlint.model.queries import conversions, names
from torchlint.pytorch import api, naming
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.index import FileIndex
    from torchlint.syntax.python_ast import Site

_SEVERAL = LazyPattern(
    r"split|chunk|unbind|^m(ax|in)$|aminmax|cumm(ax|in)|sort$|topk|kthvalue|median|mode|where|nonzero|unique|meshgrid"
    r"|broadcast_tensors|max_pool|(std|var)_mean|frexp|slogdet|svd|^qr$|^eigh?$|^lu|histogram"
)
"""Functions and methods that may return several tensors."""
_NO_TENSOR = api.PLAIN_METHODS | {"type", "is_nonzero", "is_same_size", "is_complex", "is_signed"}
_ONLY_OF_TENSORS = frozenset("unsqueeze masked_fill log_softmax logsumexp index_select bmm baddbmm view_as".split())
"""Methods that almost only tensors have."""
_WITH_DIMENSIONS = frozenset({"gather", "permute"})
"""Methods that other classes have too, but do not call with a dimension number first."""
_EFFECTS = LazyPattern(
    r"raises|assert|warn|suppress|profil|timer|timing|measure|bench|stream|record|capture", re.IGNORECASE
)
_FEW = 2
"""The largest number of statements for which a `try` is about each of them."""
_DIMENSIONS = 3
"""From this number of dimensions on, a call of `permute` can be of nothing but a tensor."""
_CELL = LazyPattern(r"^# ?(?:%%|In\[)", re.MULTILINE)


_CLOCK = LazyPattern(r"^time\.(?:perf_counter|time|monotonic|process_time)(?:_ns)?$")
_OF_NUMPY = frozenset(
    "fliplr flipud flip rot90 clip transpose squeeze expand_dims reshape concatenate stack hstack vstack pad roll sort "
    "where abs sqrt exp log ascontiguousarray swapaxes moveaxis nan_to_num normalize interp repeat tile".split()
)
_OF_OPENCV = frozenset("flip resize cvtColor rotate".split())
_OF_TORCHVISION = frozenset(
    "hflip vflip rotate crop center_crop resized_crop resize pad affine perspective adjust_brightness adjust_contrast "
    "adjust_saturation adjust_hue adjust_gamma to_tensor to_grayscale rgb_to_grayscale gaussian_blur".split()
)
_OF_TORCH = frozenset("clamp clip squeeze unsqueeze transpose permute reshape flatten flip roll nan_to_num".split())
_ELEMENTWISE = frozenset({"abs", "sqrt", "exp", "log"})
"""Functions of NumPy that write into their second argument."""
_WRAPPERS = frozenset({"torch.compile", "torch.nn.DataParallel", "torch.nn.parallel.DataParallel"})
"""Functions that return a wrapper, and leave the module or function as it is."""
_COPYING = _OF_NUMPY | _OF_OPENCV | _OF_TORCHVISION | _OF_TORCH | {"compile", "DataParallel"}
_WRITING = frozenset({"out", "dst", "inplace", None})


class DiscardedCopy(NamedTuple):
    """The call at `site` of `function` returns a changed copy of `argument`, which nothing uses."""

    site: Site
    function: str
    argument: str


class Discarded(NamedTuple):
    """The result of a tensor method, which does not change the tensor, is unused."""

    site: Site
    receiver: Site
    method: str


class DiscardedResult(Rule):
    """A method that returns a new tensor is called, and its result is discarded.

    ## What it does
    Finds statements such as `x.detach()`, `x.clamp(0)`, `x.unsqueeze(0)`, `x.double()` and `x.to(device)`, if torchlint
    knows that `x` is a tensor. It knows that for results of tensor arithmetic, of PyTorch functions and of PyTorch
    layers. For `x.detach()`, it is enough that `x` is the result of arithmetic or of a network. For
    `x.permute(1, 0, 2)`, the order of three or more dimensions is enough.

    Also finds functions of NumPy, OpenCV and torchvision that return a changed copy, as `np.fliplr(image)` does, and
    wrappers: `torch.compile(model)` and `nn.DataParallel(model)`.

    Not reported: modules, which `to` and `cuda` do change, and objects of unknown classes.

    ## Why is this bad?
    These methods do not change the tensor. They return a new one, so the line has no effect. Gradients still flow
    through `x`, values are not clamped, or the tensor is still on the other device.

    ## Example
    ```python
    import torch

    def perturb(x, epsilon):
        adversarial = x + epsilon * torch.randn_like(x)
        adversarial.clamp(0, 1)
        return adversarial
    ```

    Use instead:
    ```python
    import torch

    def perturb(x, epsilon):
        adversarial = x + epsilon * torch.randn_like(x)
        adversarial = adversarial.clamp(0, 1)
        return adversarial
    ```

    ## Fix safety
    The fix assigns the result to the name. It is unsafe because later code then uses another tensor. There is no fix if
    nothing reads the name again: then the code probably means another tensor, such as the element of a list that a loop
    iterates over.

    ## What verify shows
    `torchlint verify` checks the object on which the method is called. It confirms the finding if the object is a
    tensor. It refutes the finding if the object is a module or anything else that changes in place.

    ## References
    - [torch.Tensor.detach](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.detach.html): "Returns a new
      Tensor, detached from the current graph"
    """

    code = "TL115"
    category = Category.CORRECTNESS
    triggers = (
        (b"torch",),
        (
            *(f".{name}(".encode() for name in sorted(api.OUT_OF_PLACE | api.MOVING)),
            *(b"np.", b"numpy", b"cv2.", b"functional", b"compile(", b"DataParallel("),
        ),
    )

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        calls = (item.value for item in index.tree.of_type(ast.Expr) if isinstance(item.value, ast.Call))
        return any(
            isinstance(call.func, ast.Attribute) and (_may_be_of_tensor(call.func) or call.func.attr in _COPYING)
            for call in calls
        )

    def ask(self) -> Iterator[Discarded | DiscardedCopy]:
        if self.model.is_test:
            return
        yield from self._copies()
        for result in self.model.program.observations.discarded:
            node = self._node(result)
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not result.parents:
                continue
            if node.func.attr == "detach" and isinstance(node.func.value, ast.Call):
                continue  # `model(x).detach()` drops a tensor that no name keeps
            is_method = _may_be_of_tensor(node.func) and not self._is_function(node) and not self._is_own(node)
            is_statement = self.model.tree.stands_alone(node)  # otherwise the return value of a function of this file
            if not (is_method and is_statement) or conversions.changes_nothing(node, result.parents[0], self.model):
                continue
            if (_permutes(node) or self._has(result.parents[0], node)) and not self._is_meant(node):
                yield Discarded(python_ast.site_of(node), python_ast.site_of(node.func.value), node.func.attr)

    def _copies(self) -> Iterator[DiscardedCopy]:
        """Calls of functions that return a changed copy, as statements."""
        for statement in self.model.tree.of_type(ast.Expr):
            call = statement.value
            if not isinstance(call, ast.Call) or not call.args or not python_ast.dotted(call.args[0]):
                continue
            if any(item.arg in _WRITING for item in call.keywords):
                continue
            package, _, name = names.imported(call.func, self.model.definitions).rpartition(".")
            is_copy = (
                (package == "numpy" and name in _OF_NUMPY and len(call.args) < _places_before_out(name))
                or (package == "torch" and name in _OF_TORCH)
                or f"{package}.{name}" in _WRAPPERS
                or (package == "cv2" and name in _OF_OPENCV and len(call.args) == 2)
                or (
                    (package.startswith("torchvision.transforms.") and package.endswith("functional"))
                    and name in _OF_TORCHVISION
                )
            )
            if is_copy and not self._is_meant(call):
                yield DiscardedCopy(python_ast.site_of(call), ast.unparse(call.func), python_ast.dotted(call.args[0]))

    def _node(self, value: values.Value) -> ast.AST | None:
        """The node that creates a value, if it is in this file."""
        return self.model.tree.own_node(value.site)

    def _is_function(self, call: ast.Call) -> bool:
        """`F.relu(x, inplace=True)`, or a function that writes elsewhere through `out=`."""
        name = self.model.definitions.named(call.func)
        return name.startswith("torch.") or any(item.arg in ("out", "inplace") for item in call.keywords)

    def _is_own(self, call: ast.Call) -> bool:
        """Whether a call is on the object's own attribute: `self.relu(x)` calls a layer, which may work in place."""
        around = self.model.definitions.method_around(call)
        if around is None or around.owner is None or not isinstance(call.func, ast.Attribute):
            return False
        is_self = python_ast.dotted(call.func.value) in around.parameters[:1]
        return is_self and bool(around.owner.writers(call.func.attr))

    def _has(self, receiver: values.Value, call: ast.Call) -> bool:
        """Whether a receiver has the called PyTorch method: a tensor, or, for `detach`, a computed value."""
        may_be_computed = python_ast.called_name(call) == "detach" and not self._is_of_this_file(call)
        return self._is_tensor(receiver) or (may_be_computed and self._is_computed(receiver))

    def _is_computed(self, value: values.Value) -> bool:
        """Whether a value is a result of arithmetic, the output of a call named as a network, or a part of one."""
        value, seen = values.resolved(value), set[values.Value]()
        while isinstance(value, values.Tensor) and value.parents and value not in seen:
            if isinstance(value, values.ModuleOutput) or isinstance(self._node(value), ast.BinOp):
                return True
            seen.add(value)
            value = values.resolved(value.parents[0])
        node = self._node(value)
        return isinstance(value, values.Unknown) and node is not None and _comes_from_a_network(node)

    def _is_tensor(self, value: values.Value, seen: frozenset[values.Value] = frozenset()) -> bool:
        """Whether a value certainly is one PyTorch tensor, whatever its unknown operands are."""
        value = values.resolved(value)
        if value in seen:
            return True  # around a loop: the other inputs decide
        seen |= {value}
        if isinstance(value, values.Phi):
            return all(self._is_tensor(item, seen) for item in values.inputs_of(value))
        if isinstance(value, values.Unknown):
            return isinstance(value, values.Parameter) and (self._is_annotated(value) or value in self._computed_with)
        return isinstance(value, values.Tensor) and self._is_made(value, self._node(value), seen)

    def _is_made(self, value: values.Tensor, node: ast.AST | None, seen: frozenset[values.Value]) -> bool:
        """Whether an expression creates a tensor."""
        if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.AugAssign)):
            return any(self._is_tensor(item, seen) for item in value.parents)
        if value in self.model.program.changed:
            return self._is_tensor(value.parents[0], seen)
        if not isinstance(node, ast.Call):
            return False
        name = self.model.definitions.named(node.func)
        last = python_ast.called_name(node)
        if name.startswith("torch."):
            is_made = api.operator_name(name) is not None or (last in api.CREATORS and last != "load")
            return is_made and not _SEVERAL.search(last)
        if isinstance(value, values.ModuleOutput):
            module = values.resolved(value.parents[0])
            return isinstance(module, values.Module) and self._returns_tensor(module)
        known = api.TENSOR_METHODS | api.OUT_OF_PLACE | api.MOVING
        is_method = isinstance(node.func, ast.Attribute) and last in known - _NO_TENSOR and not _SEVERAL.search(last)
        first = node.args[0] if node.args else None
        is_sure = last in _ONLY_OF_TENSORS or (
            last in _WITH_DIMENSIONS and isinstance(first, ast.Constant) and isinstance(first.value, int)
        )
        return is_method and (is_sure or (bool(value.parents) and self._is_tensor(value.parents[0], seen)))

    def _returns_tensor(self, module: values.Module) -> bool:
        """Whether a layer of PyTorch returns one tensor."""
        last = module.name.rpartition(".")[2]
        is_known = module.info is None and module.name.startswith("torch.nn.")
        if "MaxPool" in last:  # it can also return indices
            made = self._node(module)
            return is_known and isinstance(made, ast.Call) and not _tells_more(made)
        return is_known and not re.search(r"RNN|LSTM|GRU|Multihead|AdaptiveLog|Sequential|Module|Transformer", last)

    def _is_annotated(self, parameter: values.Unknown) -> bool:
        """Whether a parameter is annotated as a tensor."""
        node = self._node(parameter)
        function = self.model.definitions.functions.get(node) if node is not None else None
        return function is not None and function.takes_tensor(parameter.label)

    @cached_property
    def _computed_with(self) -> set[values.Value]:
        """First arguments of functions in `torch.nn.functional`: tensors, since others raise."""
        found: set[values.Value] = set()
        for trace in self.model.program.traces:
            for event in trace.of(events.Compute):
                node = self.model.tree.own_node(event.site)
                name = self.model.definitions.named(node.func) if isinstance(node, ast.Call) else ""
                if name.startswith("torch.nn.functional."):
                    found.update(event.value.parents[:1])
        return found

    # -- what may be meant -----------------------------------------------------------------------------

    def _is_meant(self, call: ast.Call) -> bool:
        """Whether a statement runs for its display, error or cost: in a cell, a `try`, or its own `with`."""
        if self._is_timed(call):
            return True
        tree, inner = self.model.tree, self.model.tree.statement(call)
        for item in tree.ancestors(inner):
            if isinstance(item, (*python_ast.FUNCTIONS, ast.ClassDef)):
                return False
            if isinstance(item, python_ast.TRIES) and inner in item.body and len(item.body) <= _FEW:
                return True
            if isinstance(item, ast.With) and any(self._is_about_effects(each.context_expr) for each in item.items):
                return True
        return self._is_shown(call)

    def _is_timed(self, call: ast.Call) -> bool:
        """Whether the function reads a clock, or a new tensor moves to time or wake up the device."""
        made = call.func.value if isinstance(call.func, ast.Attribute) else None
        name = self.model.definitions.named(made.func) if isinstance(made, ast.Call) else ""
        if name.startswith("torch.") and name.rpartition(".")[2] in api.CREATORS:
            return True
        return self.model.definitions.function_around(call) in self._timing

    @cached_property
    def _timing(self) -> set[object]:
        """Functions that read a clock."""
        own = self.model.definitions
        calls = self.model.tree.of_type(ast.Call)
        found: set[object] = {own.function_around(call) for call in calls if _CLOCK.search(own.named(call.func))}
        return found - {None}

    def _is_of_this_file(self, call: ast.Call) -> bool:
        """Whether a class of the file has a method of that name, which may change its object."""
        name = python_ast.called_name(call)
        return any(name in info.methods for info in self.model.definitions.classes.values())

    def _is_about_effects(self, context: ast.expr) -> bool:
        """Whether a context checks errors or costs of its block: `pytest.raises(...)`, a profiler, a clock."""
        return _EFFECTS.search(self.model.tree.code(context)) is not None

    def _is_shown(self, call: ast.Call) -> bool:
        """Whether a statement ends a cell, which displays its value."""
        tree, statement = self.model.tree, self.model.tree.statement(call)
        body = tree.module.body
        if statement not in body:
            return False
        following = body[body.index(statement) + 1 :]
        if not tree.source.is_notebook:
            lines = tree.source.text.splitlines()
            return any(map(_CELL.match, lines[statement.lineno : following[0].lineno] if following else lines))
        cells = [tree.source.cell(item.lineno) for item in (statement, *following[:1]) if isinstance(item, ast.stmt)]
        return len(set(cells)) != 1 or not following

    # -- report ----------------------------------------------------------------------------------------

    def report_Discarded(self, discarded: Discarded) -> None:
        receiver = self._spelled(self.model.tree.node(discarded.receiver))
        self.report(
            discarded.site,
            f"`{discarded.method}` returns a new tensor, which is discarded: "
            f"{f'`{receiver}`' if receiver else 'the old tensor'} does not change",
            help=f"assign the result: `{receiver or 'x'} = {receiver or 'x'}.{discarded.method}(...)`",
            fix=self._fix(discarded),
        )

    def report_DiscardedCopy(self, found: DiscardedCopy) -> None:
        if found.function.rpartition(".")[2] in ("compile", "DataParallel"):
            self.report(
                found.site,
                f"`{found.function}` returns a wrapper, which is discarded: `{found.argument}` runs as before",
                help=f"assign the result: `{found.argument} = {found.function}(...)`",
            )
            return
        self.report(
            found.site,
            f"`{found.function}` returns a changed copy, which is discarded: `{found.argument}` does not change",
            help="assign the result, or change a parameter in place under `torch.no_grad()`"
            if found.function.startswith("torch.")
            else f"assign the result: `{found.argument} = {found.function}(...)`",
        )

    def _fix(self, discarded: Discarded) -> edits.Change | None:
        """The result assigned to the tensor's name, where it is an attribute or is read again."""
        node = self.written(discarded.site)
        target = self.model.tree.node(discarded.receiver)
        if node is None or not self._spelled(target):
            return None
        if isinstance(target, ast.Name) and not names.is_read_after(target.id, target, self.model.definitions):
            return None
        return edits.Change("bind the result", [edits.Prepend(node, f"{self._spelled(target)} = ")])

    def _spelled(self, target: ast.AST) -> str:
        """A variable, attribute or slot as the code spells it; empty for other expressions."""
        name = python_ast.dotted(target)
        has_slot = name and any(isinstance(item, ast.Subscript) for item in python_ast.walk(target))
        return self.model.tree.code(target) if has_slot else name


def _comes_from_a_network(node: ast.AST) -> bool:
    """Whether an expression calls an object named as a network, or methods of the resulting tensor."""
    while isinstance(node, (ast.Call, ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Call):
            if any(map(naming.MODULE.search, python_ast.dotted(node.func).split(".")[-2:])):
                return True
            if python_ast.called_name(node) not in api.TENSOR_METHODS:
                return False
        node = node.func if isinstance(node, ast.Call) else node.value
    return False


def _may_be_of_tensor(method: ast.Attribute) -> bool:
    """Whether a method may leave a tensor unchanged; a module, by its name, moves itself."""
    receiver = python_ast.dotted(method.value)
    is_module = receiver == "self" or naming.MODULE.search(receiver.rpartition(".")[2])
    return method.attr in api.OUT_OF_PLACE or (method.attr in api.MOVING and not is_module)


def _permutes(call: ast.Call) -> bool:
    """Whether a call orders three or more dimensions, as only tensors do: `x.permute(1, 0, 2)`."""
    given = call.args[0].elts if len(call.args) == 1 and isinstance(call.args[0], (ast.Tuple, ast.List)) else call.args
    order = [item.value for item in given if isinstance(item, ast.Constant) and isinstance(item.value, int)]
    is_order = len(order) == len(given) >= _DIMENSIONS and sorted(order) == list(range(len(order)))
    return is_order and python_ast.called_name(call) == "permute"


def _tells_more(call: ast.Call) -> bool:
    """Whether a pooling layer has arguments beyond positional sizes, or returns indices."""
    return len(call.args) > 4 or any(item.arg in (None, "return_indices") for item in call.keywords)


def _places_before_out(name: str) -> int:
    """The number of arguments of a NumPy function up to the one that would receive the result."""
    return 2 if name in _ELEMENTWISE else 3 + (name == "clip")
