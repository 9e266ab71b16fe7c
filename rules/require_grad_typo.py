"""Misspellings of `requires_grad`, such as `require_grad`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule, edits
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import values
from torchlint.pytorch import api
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_MEANT = "requires_grad"
_TYPOS = frozenset(
    {"require_grad", "required_grad", "requires_grads", "require_grads", "requires_gradient", "requries_grad"}
    | {"requires_grade", "requres_grad", "reqires_grad", "requiers_grad", "requires_gard", "requiresgrad"}
    | {"require_gradient", "requires_gradients", "need_grad", "needs_grad"}
)
_WORD = LazyPattern(rb"\b(" + "|".join(sorted(_TYPOS)).encode() + rb")\b")
_TAKING = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.autograd.Variable"})
"""Callables that accept `requires_grad`, besides the functions that create tensors."""


class Assigned(NamedTuple):
    """The code at `site` assigns the misspelled attribute `name` of the expression `owner`."""

    site: Site
    name: str
    owner: str
    is_flag: bool
    """Whether `requires_grad` can replace it. A leaf tensor accepts the assignment, a module ignores it."""


class Passed(NamedTuple):
    """The call to `name` at `site` passes the misspelled keyword argument `keyword`."""

    site: Site
    name: str
    keyword: str


class RequireGradTypo(Rule):
    """`require_grad` is a misspelling of `requires_grad` and freezes nothing.

    ## What it does
    Finds `x.require_grad = ...` of tensors and modules in a file that never reads such an attribute. Also finds the
    keyword argument `require_grad` of `nn.Parameter`, `Variable` and PyTorch functions that create tensors. torchlint
    knows the usual misspellings, such as `required_grad` and `requires_gradient`.

    ## Why is this bad?
    Python silently creates a new attribute on the tensor. Parameters that should be frozen are trained, and an input
    that should get a gradient gets none. The keyword raises a `TypeError`.

    ## Example
    ```python
    import torch

    def freeze(model: torch.nn.Module):
        for parameter in model.parameters():
            parameter.require_grad = False
    ```

    Use instead:
    ```python
    import torch

    def freeze(model: torch.nn.Module):
        for parameter in model.parameters():
            parameter.requires_grad = False
    ```

    ## Fix safety
    The fix is unsafe, because the correct name changes which parameters are trained. torchlint offers no fix for a
    module, which also ignores `requires_grad` (`requires_grad_` freezes it). It offers none for a computed tensor,
    which does not accept the assignment.

    ## References
    - [torch.Tensor.requires_grad](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.requires_grad.html)
    """

    code = "TL804"
    category = Category.CORRECTNESS
    aliases = ("TOR002",)
    triggers = (tuple(sorted(name.encode() for name in _TYPOS)), (b"torch",))
    calls = api.CREATORS | {"parameters", "named_parameters", "Parameter", "Variable", "Linear"}

    @classmethod
    def may_fire(cls, code: bytes) -> bool:
        return _WORD.search(code) is not None

    def ask(self) -> Iterator[Assigned | Passed]:
        tree, definitions = self.model.tree, self.model.definitions
        attributes = [node for node in tree.of_type(ast.Attribute) if node.attr in _TYPOS]
        named = any(isinstance(node.value, str) and node.value in _TYPOS for node in tree.of_type(ast.Constant))
        if attributes and not named and all(isinstance(node.ctx, ast.Store) for node in attributes):
            owners = self.model.program.observations.attribute_owners
            for node in attributes:
                site = python_ast.site_of(node)
                if site in owners and _is_of_pytorch(owners[site]) and not self._is_so_anyway(node, owners[site]):
                    yield Assigned(site, node.attr, tree.code(node.value), self._is_flag(owners[site]))
        for call in tree.of_type(ast.Call):
            keyword = _typo(call)
            name = definitions.named(call.func) if keyword else ""
            if name in _TAKING or (api.package(name) == "torch" and name.rpartition(".")[2] in api.CREATORS):
                yield Passed(python_ast.site_of(call), name, keyword)

    def _is_so_anyway(self, node: ast.Attribute, owner: values.Value) -> bool:
        """Whether the code assigns False to a tensor that requires no gradient."""
        statement = self.model.tree.parent(node)
        is_false = isinstance(statement, ast.Assign) and python_ast.is_literal(statement.value, False)
        return is_false and self.model.tracking.tracked(owner) is values.Answer.NO

    def _is_flag(self, owner: values.Value) -> bool:
        """Whether `requires_grad` accepts an assignment. A tensor with a graph raises, a module has no such flag."""
        return isinstance(owner, values.Tensor) and (owner.leaf or not self._has_graph(owner))

    def _has_graph(self, owner: values.Tensor) -> bool:
        if isinstance(owner, values.ModuleParameter):
            return False
        return self.model.tracking.tracked(owner) is not values.Answer.NO

    # -- report ---------------------------------------------------------------------------------------

    def report_Assigned(self, answer: Assigned) -> None:
        self.report(
            answer.site,
            f"`{answer.owner}.{answer.name}` creates a new attribute that nothing reads: `{_MEANT}` does not change",
            help=f"write `{_MEANT}`",
            fix=self._renamed(answer.site, f"{answer.owner}.{_MEANT}") if answer.is_flag else None,
        )

    def report_Passed(self, answer: Passed) -> None:
        call = self.model.tree.node(answer.site)
        assert isinstance(call, ast.Call)
        self.report(
            answer.site,
            f"`{answer.name.rpartition('.')[2]}` has no parameter `{answer.keyword}`: this raises a `TypeError`",
            help=f"write `{_MEANT}`",
            fix=self._with_keyword(call, answer.keyword),
        )

    def _renamed(self, site: Site, code: str) -> edits.Change | None:
        written = self.written(site) if "\n" not in code else None
        return edits.Change(f"use `{_MEANT}`", [edits.Replace(written, code)]) if written is not None else None

    def _with_keyword(self, call: ast.Call, keyword: str) -> edits.Change | None:
        import libcst as cst

        written = self.written(python_ast.site_of(call))
        keywords = [item.keyword for item in written.args] if isinstance(written, cst.Call) else []
        found = [edits.Replace(name, _MEANT) for name in keywords if name is not None and name.value == keyword]
        return edits.Change(f"use `{_MEANT}`", found) if found else None


def _typo(call: ast.Call) -> str:
    """The misspelled keyword of a call; empty if there is none."""
    return next((item.arg for item in call.keywords if item.arg in _TYPOS), None) or ""


def _is_of_pytorch(value: values.Value) -> bool:
    return isinstance(value, values.Tensor) or (isinstance(value, values.Module) and value.info is None)
