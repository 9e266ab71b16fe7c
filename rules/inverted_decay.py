"""Weight decay of the parameters that should have none, and of no other ones."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_SPARED = LazyPattern(r"(?i)bias|norm|gamma|beta|\bln|\bbn")
"""Parts of the names of parameters that usually have no weight decay."""

_SMALL = {(ast.LtE, 1), (ast.Eq, 1), (ast.Lt, 2)}
_LARGE = {(ast.Gt, 1), (ast.GtE, 2), (ast.NotEq, 1)}


class Inverted(NamedTuple):
    """The group at `site` decays the spared parameters, and the group at `other` does not decay the rest."""

    site: Site
    other: Site


class InvertedDecay(Rule):
    """Weight decay applies to biases and norms only, because two groups are swapped.

    ## What it does
    Finds two parameter groups of an optimizer, of which one contains the biases and the parameters of norms, and the
    other one the rest. The first group has a weight decay, and the second one has `weight_decay=0`. The names are those
    that the code tests in `named_parameters()`, such as `"bias" in name`.

    ## Why is this bad?
    The weight matrices are not regularized at all, and the biases and norms, which should be free, are pulled towards
    zero. There is no error, and the model overfits.

    ## Example
    ```python
    import torch

    def optimizer_of(model):
        skip = ["bias", "LayerNorm.weight"]
        groups = [
            {"params": [p for n, p in model.named_parameters() if any(s in n for s in skip)], "weight_decay": 0.01},
            {"params": [p for n, p in model.named_parameters() if not any(s in n for s in skip)], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=1e-4)
    ```

    Use instead:
    ```python
    import torch

    def optimizer_of(model):
        skip = ["bias", "LayerNorm.weight"]
        groups = [
            {"params": [p for n, p in model.named_parameters() if any(s in n for s in skip)], "weight_decay": 0.0},
            {"params": [p for n, p in model.named_parameters() if not any(s in n for s in skip)], "weight_decay": 0.01},
        ]
        return torch.optim.AdamW(groups, lr=1e-4)
    ```
    """

    code = "TL163"
    category = Category.CORRECTNESS
    triggers = ((b"weight_decay",), (b"named_parameters",), (b"bias", b"norm"))

    def ask(self) -> Iterator[Inverted]:
        for groups in self.model.tree.of_type(ast.List):
            dicts = [item for item in groups.elts if isinstance(item, ast.Dict)]
            if len(dicts) != 2 or len(groups.elts) != 2:
                continue
            decayed = [item for item in dicts if _has_decay(item) is True]
            free = [item for item in dicts if _has_decay(item) is False]
            if len(decayed) == len(free) == 1 and self._is_spared(decayed[0]) and self._is_spared(free[0]) is False:
                yield Inverted(python_ast.site_of(decayed[0]), python_ast.site_of(free[0]))

    def _is_spared(self, group: ast.Dict) -> bool | None:
        """Whether a group holds the parameters that usually have no decay, or the other ones; None if unknown."""
        given = _entry(group, "params")
        if given is None:
            return None
        if isinstance(given, ast.Name):
            appended = self._branch_of(given)
            if appended is not None:
                return appended
        value = written.value_of(given, self.model.definitions)
        if isinstance(value, (ast.ListComp, ast.GeneratorExp)):
            tests = [test for item in value.generators for test in item.ifs]
            found = [answer for test in tests if (answer := self._selects(test)) is not None]
            return found[0] if len(found) == 1 else None
        return None

    def _branch_of(self, name: ast.Name) -> bool | None:
        """The parameters that a list receives, if one branch of a test of names fills it, and the other one another."""
        scope = self.model.tree.scope_around(name)
        found: set[bool | None] = set()
        for node in python_ast.walk(scope):
            if isinstance(node, ast.Call) and python_ast.dotted(node.func) == f"{name.id}.append":
                around = self.model.tree.parent(self.model.tree.statement(node))
                if not isinstance(around, ast.If) or not around.orelse:
                    return None
                selected = self._selects(around.test)
                is_body = self.model.tree.statement(node) in around.body
                found.add(selected if is_body or selected is None else not selected)
        return found.pop() if len(found) == 1 else None

    def _selects(self, test: ast.expr) -> bool | None:
        """Whether a test is true for biases and norms (True), for the other parameters (False), or neither."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self._selects(test.operand)
            return None if inner is None else not inner
        if isinstance(test, ast.BoolOp):
            return self._selects_together(test)
        if isinstance(test, ast.Call):
            return self._selects_by_call(test)
        return self._selects_by_comparison(test) if isinstance(test, ast.Compare) and len(test.ops) == 1 else None

    def _selects_together(self, test: ast.BoolOp) -> bool | None:
        """`"bias" in name or "norm" in name`; an `and` excludes both: `"bias" not in name and "norm" not in name`."""
        found = {answer for item in test.values if (answer := self._selects(item)) is not None}
        if len(found) != 1 or (isinstance(test.op, ast.Or) and False in found):
            return None
        return found.pop()

    def _selects_by_call(self, test: ast.Call) -> bool | None:
        """`any(part in name for part in parts)`, and `name.endswith("bias")`."""
        name = python_ast.called_name(test)
        first = test.args[0] if test.args else None
        if name == "endswith" and first is not None:
            return True if self._are_spared(first) else None
        if name != "any" or not isinstance(first, (ast.GeneratorExp, ast.ListComp)) or len(first.generators) != 1:
            return None
        is_part = isinstance(first.elt, ast.Compare) and isinstance(first.elt.ops[0], ast.In)
        is_end = isinstance(first.elt, ast.Call) and python_ast.called_name(first.elt) == "endswith"
        return True if (is_part or is_end) and self._are_spared(first.generators[0].iter) else None

    def _selects_by_comparison(self, test: ast.Compare) -> bool | None:
        """`"bias" in name`, and `p.ndim <= 1`."""
        left, right, op = test.left, test.comparators[0], test.ops[0]
        if isinstance(op, (ast.In, ast.NotIn)):
            return isinstance(op, ast.In) if self._are_spared(left) and not isinstance(right, ast.Constant) else None
        code, bound = self.model.tree.code(left), right.value if isinstance(right, ast.Constant) else None
        if "ndim" not in code and ".dim()" not in code:
            return None
        if (type(op), bound) in _SMALL:
            return True
        return False if (type(op), bound) in _LARGE else None

    def _are_spared(self, node: ast.expr) -> bool:
        """Whether a text, or each text of a list, is a part of the names of biases or norms."""
        value = written.value_of(node, self.model.definitions)
        items = value.elts if isinstance(value, (ast.List, ast.Tuple, ast.Set)) else [value]
        texts = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]
        return bool(texts) and len(texts) == len(items) and all(map(_SPARED.search, texts))

    def report_Inverted(self, found: Inverted) -> None:
        self.report(
            found.site,
            "only biases and norms decay: the groups with and without weight decay are swapped",
            related=[(found.other, "the other parameters have no weight decay")],
            help="give this group `weight_decay=0` and the other one the decay",
        )


def _entry(group: ast.Dict, name: str) -> ast.expr | None:
    keys = zip(group.keys, group.values, strict=True)
    return next((value for key, value in keys if isinstance(key, ast.Constant) and key.value == name), None)


def _has_decay(group: ast.Dict) -> bool | None:
    """Whether a group sets a weight decay (True) or switches it off (False)."""
    value = _entry(group, "weight_decay")
    if value is None:
        return None
    return not (isinstance(value, ast.Constant) and value.value == 0)
