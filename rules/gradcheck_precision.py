"""Gradient checks in single precision."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from torchlint import Category, Rule
from torchlint.model.queries import names
from torchlint.pytorch.binding import Parameters, bind
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_CHECKS = frozenset(
    f"torch.autograd.{module}{name}" for module in ("", "gradcheck.") for name in ("gradcheck", "gradgradcheck")
)
_PARAMETERS = Parameters("func", "inputs", "grad_outputs")
_FLOATING = frozenset("torch.rand torch.randn torch.zeros torch.ones torch.empty torch.linspace torch.eye".split())
_SINGLE = frozenset({"torch.float", "torch.float32"})
_SAME_PRECISION = frozenset(
    "abs clone contiguous cpu cuda detach requires_grad_ reshape view unsqueeze squeeze t transpose".split()
)
_OWN_TOLERANCE = frozenset({"eps", "atol", "rtol", "raise_exception"})


class SinglePrecision(NamedTuple):
    """A check receives a single-precision input, created at `made`."""

    call: Site
    name: str
    made: Site


class GradcheckPrecision(Rule):
    """`gradcheck` receives single-precision inputs, so it fails.

    ## What it does
    Finds `torch.autograd.gradcheck` and `gradgradcheck` with the default `eps` and `atol`, where torchlint knows that
    an input is `float32` and requires grad, such as the result of `torch.randn` or `torch.rand` without a `dtype`.

    ## Why is this bad?
    The check fails although the gradient is right. It shifts each input by 1e-6 and compares the results. In single
    precision that difference is rounding error.

    ## Example
    ```python
    import torch
    from torch.autograd import gradcheck

    def test_scale(scale):
        x = torch.randn(5, requires_grad=True)
        assert gradcheck(scale, (x,))
    ```

    Use instead:
    ```python
    import torch
    from torch.autograd import gradcheck

    def test_scale(scale):
        x = torch.randn(5, dtype=torch.double, requires_grad=True)
        assert gradcheck(scale, (x,))
    ```

    ## References
    - [torch.autograd.gradcheck](https://docs.pytorch.org/docs/stable/generated/torch.autograd.gradcheck.gradcheck.html):
      "The default values are designed for `input` of double precision"
    """

    code = "TL307"
    category = Category.SUSPICIOUS
    preview = True
    triggers = ((b"gradcheck",), (b"torch",))

    def ask(self) -> Iterator[SinglePrecision]:
        if b"set_default_" in self.model.tree.source.code:
            return  # of another precision, for all we know
        for call in self.model.tree.of_type(ast.Call):
            name = python_ast.called_name(call)
            if self.model.definitions.named(call.func) not in _CHECKS or self.model.tree.expects_error(call):
                continue
            keywords = {item.arg: item.value for item in call.keywords if item.arg is not None}
            if len(keywords) < len(call.keywords) or not keywords.keys().isdisjoint(_OWN_TOLERANCE):
                continue
            given = bind(_PARAMETERS, call.args, keywords).get("inputs")
            made = self._single(given) if given is not None else None
            if made is not None:
                yield SinglePrecision(python_ast.site_of(call), name, python_ast.site_of(made))

    def _single(self, given: ast.expr) -> ast.expr | None:
        """The creation of an input that certainly is single-precision and requires grad; None if there is none."""
        given = self._bound(given)
        inputs = given.elts if isinstance(given, (ast.Tuple, ast.List)) else [given]
        for item in inputs:
            made = self._bound(item)
            if self._is_single(made) and (_requires_grad(made) or self._is_told_to(item)):
                return made
        return None

    def _bound(self, node: ast.expr) -> ast.expr:
        """The value of a name that its function assigns once and earlier; otherwise the expression itself."""
        value = names.only_value(node, self.model.definitions) if isinstance(node, ast.Name) else None
        return value if value is not None else node

    def _is_single(self, node: ast.expr) -> bool:
        if not isinstance(node, ast.Call):
            return False
        name = self.model.definitions.named(node.func)
        if name in _FLOATING:
            types = [item.value for item in node.keywords if item.arg in ("dtype", None)]
            return all(self.model.definitions.named(item) in _SINGLE for item in types)
        if not isinstance(node.func, ast.Attribute):
            return False
        if node.func.attr == "float" and not node.args:
            return True
        return node.func.attr in _SAME_PRECISION and self._is_single(node.func.value)

    def _is_told_to(self, name: ast.expr) -> bool:
        """Whether the code sets the flag: `x.requires_grad_()` and `x.requires_grad = True`."""
        function = self.model.definitions.function_around(name)
        if not isinstance(name, ast.Name) or function is None:
            return False
        attributes = (item for item in python_ast.walk(function.node) if isinstance(item, ast.Attribute))
        return any(item.attr.startswith("requires_grad") and _names(item.value, name.id) for item in attributes)

    def report_SinglePrecision(self, single: SinglePrecision) -> None:
        self.report(
            single.call,
            f"`{single.name}` receives an input in single precision: rounding errors make it fail",
            related=[(single.made, "the input is created here")],
            help="create the inputs with `dtype=torch.double`",
        )


def _names(node: ast.AST, name: str) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and node.id == name


def _requires_grad(made: ast.expr) -> bool:
    """Whether the creation of an input sets that it requires grad."""
    calls = (item for item in python_ast.walk(made) if isinstance(item, ast.Call))
    return any(
        python_ast.called_name(call) == "requires_grad_"
        or any(item.arg == "requires_grad" and python_ast.is_literal(item.value, True) for item in call.keywords)
        for call in calls
    )
