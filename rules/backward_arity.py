"""Autograd functions whose `backward` does not match their `forward`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from torchlint import Category, Confidence, Rule, edits
from torchlint.index import FileIndex
from torchlint.model.queries import autograd_functions, names
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.model.definitions import FunctionInfo
    from torchlint.model.queries.autograd_functions import AutogradFunction
    from torchlint.syntax.python_ast import Site

_ONE_TENSOR = frozenset(
    (
        "abs clone contiguous cuda cpu detach div double exp expand expand_as flatten float half log masked_fill "
        "matmul mm mul neg permute pow reshape sign sqrt squeeze sub sum t to transpose type_as unsqueeze view "
        "view_as"
    ).split()
)
"""Methods that return one tensor for a tensor."""
_NUMBERS = frozenset({"int", "float", "bool", "str"})


class WrongGradients(NamedTuple):
    """A `return` of `backward` has `given` gradients for `inputs` inputs of `forward`."""

    site: Site
    function: str
    given: int
    inputs: int
    forward: Site
    may_pad: bool
    """Whether only gradients of numbers are missing, which are None."""


class WrongOutputs(NamedTuple):
    """A `backward` receives `taken` gradients, while `forward` returns `outputs` outputs."""

    site: Site
    function: str
    taken: int
    outputs: int
    forward: Site


class OldStyle(NamedTuple):
    """The code calls instances of a function whose method is not static."""

    site: Site
    function: str
    method: str
    made: Site


class BackwardArity(Rule):
    """`backward` of an autograd function does not match its `forward`, and raises.

    ## What it does
    Finds classes derived from `torch.autograd.Function` where:

    - `backward` returns fewer gradients than `forward` has inputs, or extra ones that are not None;
    - `backward` receives a different number of gradients than `forward` returns outputs;
    - the methods are not static and the code calls an instance, as in old versions of PyTorch.

    Reported only if both numbers are explicit, with no `*args` and no tuple built elsewhere.

    By default, torchlint reports only the last case. Wrong numbers of gradients need `--preview`, because they are
    often in functions that are never differentiated.

    ## Why is this bad?
    The forward pass works, and the backward pass raises "returned an incorrect number of gradients". Inputs that are
    not tensors count as well: their gradient is None. PyTorch no longer supports old-style functions, where the code
    calls an instance of the class.

    ## Example
    ```python
    from torch.autograd import Function

    class Double(Function):
        def forward(self, x):
            return 2 * x

        def backward(self, grad):
            return 2 * grad

    def double(x):
        return Double()(x)
    ```

    Use instead:
    ```python
    from torch.autograd import Function

    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad

    def double(x):
        return Double.apply(x)
    ```

    ## Fix safety
    The fix adds `None` only for inputs that are annotated as numbers, flags or strings. It is unsafe: the order of
    the returned gradients may be wrong too.

    ## What verify shows
    `torchlint verify` watches for PyTorch's error that names the function. The error confirms the finding. Backward
    passes that run through the function without an error refute it.

    ## References
    - [torch.autograd.Function.backward](https://docs.pytorch.org/docs/stable/generated/torch.autograd.Function.backward.html):
      "it should return as many tensors, as there were inputs to `forward`"
    """

    code = "TL305"
    category = Category.CORRECTNESS
    triggers = ((b"Function",), (b"backward",), (b"autograd",))

    def ask(self) -> Iterator[WrongGradients | WrongOutputs | OldStyle]:
        for function in autograd_functions.autograd_functions(self.model.definitions):
            old = self._old_style(function)
            if old is not None:
                yield old
                continue
            if function.gives_gradients:
                yield from self._wrong_gradients(function)
                yield from self._wrong_outputs(function)

    def _wrong_gradients(self, function: AutogradFunction) -> Iterator[WrongGradients]:
        inputs = function.inputs
        nodes = names.own_nodes(function.backward.node)
        returns = [node for node in nodes if isinstance(node, ast.Return) and not self._comes_after_raise(node)]
        values = [_elements(node.value, function) for node in returns]
        if inputs is None or any(value is None for value in values):
            return
        least, most = len(inputs) - len(function.forward.node.args.defaults), self._most_given(function.info.name)
        is_answered = any(len(value or []) >= most for value in values)  # each return may belong to another call
        required = least if is_answered else max(least, most)
        for node, value in zip(returns, values, strict=True):
            given = value or []
            extra, own = given[len(inputs) :], given[: len(inputs)]
            too_many = any(
                _is_tensor(item, function.backward, or_none=False) or _is_returned_as_well(item, own, function.backward)
                for item in extra
            )
            if len(given) < required or too_many:
                missing = inputs[len(given) : required]
                may_pad = all(python_ast.dotted(item.annotation) in _NUMBERS for item in missing) and not too_many
                site, forward = python_ast.site_of(node), python_ast.site_of(function.forward.node)
                count = required if len(given) < required else len(inputs)
                yield WrongGradients(site, function.info.name, len(given), count, forward, may_pad)

    def _comes_after_raise(self, node: ast.Return) -> bool:
        """Whether a `return` never runs: the code above it raises, because nothing needs the gradients."""
        around = self.model.tree.parent(node)
        for block in (getattr(around, name, []) for name in ("body", "orelse", "finalbody")):
            if isinstance(block, list) and node in block:
                return any(isinstance(item, ast.Raise) for item in block[: block.index(node)])
        return False

    def _most_given(self, name: str) -> int:
        """The largest number of inputs in any call in this file; each needs a gradient, even a default."""
        applied = FileIndex.of(self.model.tree).calls_named("apply")
        calls = (call for call in applied if python_ast.dotted(call.func) == f"{name}.apply")
        return max((len(call.args) for call in calls if not any(map(_is_starred, call.args))), default=0)

    def _wrong_outputs(self, function: AutogradFunction) -> Iterator[WrongOutputs]:
        gradients, returns = function.gradients, autograd_functions.returns_of(function.forward)
        counts = {len(item.elts) if _is_written_out(item) else _one(item) for item in returns}
        if gradients is None or len(counts) != 1 or None in counts:
            return
        outputs = counts.pop()
        assert outputs is not None
        required = len(gradients) - len(function.backward.node.args.defaults)
        if outputs > len(gradients) or outputs < required:
            site, forward = python_ast.site_of(function.backward.node), python_ast.site_of(function.forward.node)
            yield WrongOutputs(site, function.info.name, len(gradients), outputs, forward)

    def _old_style(self, function: AutogradFunction) -> OldStyle | None:
        """A function with a non-static method that the code instantiates, and whose `apply` it never calls."""
        methods = (function.forward, function.backward)
        method = next((item for item in methods if not item.has_decorator("staticmethod")), None)
        name, tree = function.info.name, self.model.tree
        if method is None or _is_made_static(function) or function.info.method("__call__") is not None:
            return None
        applied = any(node.attr == "apply" for node in tree.of_type(ast.Attribute))
        calls = (call for call in FileIndex.of(tree).calls_named(name) if isinstance(call.func, ast.Name))
        made = next((call for call in calls if not isinstance(tree.parent(call), ast.Attribute)), None)
        if applied or made is None:
            return None
        return OldStyle(python_ast.site_of(method.node), name, method.name, python_ast.site_of(made))

    # -- report ----------------------------------------------------------------------------------------

    def report_WrongGradients(self, wrong: WrongGradients) -> None:
        count = f"{wrong.given} gradient{'s' * (wrong.given != 1)} for {wrong.inputs} input{'s' * (wrong.inputs != 1)}"
        self.report(
            wrong.site,
            f"`backward` of `{wrong.function}` returns {count} of `forward`: the backward pass raises",
            related=[(wrong.forward, "the inputs are here")],
            help="return one gradient for each input, and None where no gradient is needed",
            fix=self._fix(wrong) if wrong.may_pad else None,
            confidence=Confidence.LOW,
        )

    def report_WrongOutputs(self, wrong: WrongOutputs) -> None:
        taken = f"{wrong.taken} gradient{'s' * (wrong.taken != 1)}"
        outputs = f"returns {wrong.outputs} output{'s' * (wrong.outputs != 1)}"
        self.report(
            wrong.site,
            f"`backward` of `{wrong.function}` receives {taken}, but `forward` {outputs}: the backward pass raises",
            related=[(wrong.forward, "the outputs are returned here")],
            help="accept one gradient for each output",
            confidence=Confidence.LOW,
        )

    def report_OldStyle(self, old: OldStyle) -> None:
        self.report(
            old.site,
            f"`{old.function}.{old.method}` is not a static method: PyTorch raises when the code calls an instance",
            related=[(old.made, "an instance is created here")],
            help=f"make `forward` and `backward` static, and call `{old.function}.apply`",
        )

    def _fix(self, wrong: WrongGradients) -> edits.Change | None:
        statement = self.model.tree.node(wrong.site)
        value = statement.value if isinstance(statement, ast.Return) else None
        node = self.written(python_ast.site_of(value)) if value is not None else None
        if node is None or value is None:
            return None
        code, none = self.model.tree.code(value), ", None" * (wrong.inputs - wrong.given)
        if "\n" in code or node.lpar:
            return None
        return edits.Change("return None for the other inputs", [edits.Replace(node, f"{code}{none}")])


def _elements(value: ast.expr | None, function: AutogradFunction) -> list[ast.expr] | None:
    """The returned gradients, if they are explicit: a tuple display, or one tensor."""
    if value is None or python_ast.is_literal(value, None):
        return [ast.Constant(None)]
    if _is_written_out(value):
        return value.elts
    return [value] if _is_tensor(value, function.backward, or_none=True) else None


def _is_written_out(value: ast.expr | None) -> TypeGuard[ast.Tuple]:
    return isinstance(value, ast.Tuple) and not any(isinstance(item, ast.Starred) for item in value.elts)


def _is_tensor(value: ast.expr, backward: FunctionInfo, *, or_none: bool, seen: frozenset[str] = frozenset()) -> bool:
    """Whether an expression of `backward` certainly is one tensor, computed from a received gradient."""
    if isinstance(value, ast.BinOp):
        return any(_is_tensor(item, backward, or_none=False, seen=seen) for item in (value.left, value.right))
    if isinstance(value, ast.UnaryOp):
        return not isinstance(value.op, ast.Not) and _is_tensor(value.operand, backward, or_none=False, seen=seen)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        receiver = value.func.value
        return value.func.attr in _ONE_TENSOR and _is_tensor(receiver, backward, or_none=False, seen=seen)
    if not isinstance(value, ast.Name) or value.id in seen:
        return False
    made = _assigned(value.id, backward)
    known = [item for item in made if not (or_none and item is not None and python_ast.is_literal(item, None))]
    if not known:
        return value.id in backward.parameters[1:] and not made
    seen |= {value.id}
    return all(item is not None and _is_tensor(item, backward, or_none=or_none, seen=seen) for item in known)


def _is_starred(node: ast.expr) -> bool:
    return isinstance(node, ast.Starred)


def _is_returned_as_well(value: ast.expr, own: list[ast.expr], backward: FunctionInfo) -> bool:
    """Whether a value assigned once is also returned as a gradient; if it were None, there would never be one."""
    if isinstance(value, ast.Subscript):
        return any(ast.unparse(item) == ast.unparse(value) for item in own)
    is_gradient = isinstance(value, ast.Name) and any(python_ast.dotted(item) == value.id for item in own)
    return is_gradient and isinstance(value, ast.Name) and len(_stores(value.id, backward)) == 1


def _stores(name: str, function: FunctionInfo) -> list[ast.Name]:
    found = (node for node in python_ast.walk(function.node) if isinstance(node, ast.Name) and node.id == name)
    return [node for node in found if isinstance(node.ctx, ast.Store)]


def _assigned(name: str, function: FunctionInfo) -> list[ast.expr | None]:
    """The values assigned to a name of a function; None for unknown ones."""
    found: list[ast.expr | None] = []
    plain: set[ast.expr] = set()
    for node in python_ast.walk(function.node):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and python_ast.dotted(node.targets[0]) == name:
            plain.add(node.targets[0])
            found += [node.value] if isinstance(node.targets[0], ast.Name) else []
        elif isinstance(node, ast.AugAssign):
            plain.add(node.target)
        elif isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store) and node not in plain:
            found.append(None)
    return found


def _is_made_static(function: AutogradFunction) -> bool:
    """`forward = staticmethod(forward)` in the class."""
    assigns = (item for item in function.info.node.body if isinstance(item, ast.Assign))
    return any(python_ast.dotted(target) in ("forward", "backward") for item in assigns for target in item.targets)


def _one(value: ast.expr | None) -> int | None:
    """1 for an expression that is one tensor: arithmetic, without concatenated tuples."""
    is_number = isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Sub, ast.Div, ast.MatMult, ast.Pow))
    return 1 if is_number or isinstance(value, (ast.UnaryOp, ast.Compare)) else None
