"""Loads with `strict=False` whose result is unused."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_PARTIAL = LazyPattern(r"(?i)lora|adapter|peft|backbone|pretrain|head|prompt|\.pop\(|\bdel |startswith|filter| if k")
"""Words in names of functions that load a part on purpose."""


class Unchecked(NamedTuple):
    """`load_state_dict` of `name` at `site` is not strict, and its result is unused."""

    site: Site
    name: str


class UncheckedPartialLoad(Rule):
    """`load_state_dict(strict=False)` may load nothing, and no code checks the result.

    ## What it does
    Finds calls to `load_state_dict` with `strict=False` whose result the code ignores. Not reported in functions
    that load a part on purpose: they filter or delete keys of the state dict, or mention words such as `backbone`.

    This rule is a preview because common correct code looks the same, such as loads where only a few keys are missing
    on purpose.

    ## Why is this bad?
    The model may keep its random weights. Keys with a different prefix, such as `module.`, match no parameter. With
    `strict=False` nothing loads and there is no error.

    ## Example
    ```python
    import torch

    def load(model, path):
        model.load_state_dict(torch.load(path), strict=False)
    ```

    Use instead:
    ```python
    import torch

    def load(model, path):
        result = model.load_state_dict(torch.load(path), strict=False)
        assert not result.missing_keys, result.missing_keys
    ```

    ## What verify shows
    `torchlint verify` confirms the finding if the call loaded no entry into the module. It refutes the finding if the
    call loaded all entries of the module.
    """

    code = "TL325"
    category = Category.SUSPICIOUS
    preview = True
    triggers = ((b"load_state_dict",), (b"False",))

    def ask(self) -> Iterator[Unchecked]:
        for call in self.model.tree.of_type(ast.Call) if not self.model.is_test else ():
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            if python_ast.called_name(call) != "load_state_dict" or owner is None or not _is_partial(call):
                continue
            function = self.model.tree.function_around(call)
            is_meant = function is not None and _PARTIAL.search(self.model.tree.code(function))
            if self.model.tree.stands_alone(call) and not is_meant:
                yield Unchecked(python_ast.site_of(call), self.model.tree.code(owner))

    def report_Unchecked(self, found: Unchecked) -> None:
        self.report(
            found.site,
            f"`{found.name}` may load none of these weights: `strict=False` skips names that do not match",
            help="check `missing_keys` and `unexpected_keys` of the result",
        )


def _is_partial(call: ast.Call) -> bool:
    given = [item.value for item in call.keywords if item.arg == "strict"] + call.args[1:2]
    return any(python_ast.is_literal(item, False) for item in given)
