"""Attributes of a dataset that are set through one part of a split and apply to all parts."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import Site

_LAZY = frozenset("DataLoader len print Subset random_split range list arange int repr str".split())
"""Callables that take no sample from a dataset passed to them."""


class SharedSetting(NamedTuple):
    """The assignment at `site` changes the attribute for all parts of the dataset; `before` set it first."""

    site: Site
    before: Site
    target: str
    owner: str
    """The dataset or subset that the earlier assignment was for."""
    name: str


class SharedSplitSetting(Rule):
    """A transform set on one part of a split applies to the other part too.

    ## What it does
    Finds an attribute of a dataset that is set twice with different values, at least once through a part of a split.
    Example: `train_set.dataset.transform = ...`, then `val_set.dataset.transform = ...`. The first value may also be an
    argument of the dataset's class.

    Not reported when:

    - The code may read samples between the two assignments.
    - A part has a separate dataset.

    ## Why is this bad?
    The parts from `random_split` and `Subset` are indices into one shared dataset, so the last assignment applies to
    all parts. Training runs without its augmentations, or validation runs with them.

    ## Example
    ```python
    from torch.utils.data import random_split

    def split(dataset, augment, plain):
        train_set, val_set = random_split(dataset, [0.8, 0.2])
        train_set.dataset.transform = augment
        val_set.dataset.transform = plain
        return train_set, val_set
    ```

    Use instead:
    ```python
    import copy
    from torch.utils.data import random_split

    def split(dataset, augment, plain):
        train_set, val_set = random_split(dataset, [0.8, 0.2])
        val_set.dataset = copy.copy(dataset)
        train_set.dataset.transform = augment
        val_set.dataset.transform = plain
        return train_set, val_set
    ```

    ## References
    - [torch.utils.data.random_split](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.random_split)
    """

    code = "TL608"
    category = Category.CORRECTNESS
    triggers = ((b"random_split", b"Subset"), (b"dataset",))
    calls = frozenset({"random_split", "Subset"})

    def ask(self) -> Iterator[SharedSetting]:
        for earlier, later in [] if self.model.is_test else self.model.datasets.overwritten():
            before, target = self.model.tree.own_node(earlier), self.model.tree.own_node(later)
            if before is not None and isinstance(target, ast.Attribute) and self._is_lost(before, target):
                owner = before.value if isinstance(before, ast.Attribute) else before
                yield SharedSetting(
                    later, earlier, self.model.tree.code(target.value), python_ast.dotted(owner), target.attr
                )

    def _is_lost(self, before: ast.AST, target: ast.Attribute) -> bool:
        """Whether an assignment replaces another value before the code takes any sample."""
        tree = self.model.tree
        first, second = tree.statement(before), tree.statement(target)
        one, other = _value(before, target.attr, first), _value(target, target.attr, second)
        if one is None or other is None or python_ast.is_literal(one, None) or python_ast.written_alike(one, other):
            return False
        block = tree.block(first)
        if second not in block or block.index(first) >= block.index(second):
            return False
        between = block[block.index(first) + 1 : block.index(second)]
        is_simple = all(isinstance(item, (ast.Assign, ast.AnnAssign, ast.Expr, ast.Import)) for item in between)
        return is_simple and not self._takes_samples(between, _roots([before, *_targets(first), target]))

    def _takes_samples(self, statements: list[ast.AST], names: set[str]) -> bool:
        """Whether an expression may take samples from an object with one of these names, or from one built from it."""
        for statement in statements:
            for call in python_ast.walk(statement):
                if isinstance(call, ast.Call) and python_ast.called_name(call) not in _LAZY:
                    if not names.isdisjoint(_roots([call])):
                        return True
                if isinstance(call, python_ast.COMPREHENSIONS):
                    return True
            if not names.isdisjoint(_roots([statement])):
                names |= _roots(_targets(statement))
        return False

    # -- report ---------------------------------------------------------------------------------------

    def report_SharedSetting(self, shared: SharedSetting) -> None:
        before = f"that of `{shared.owner}`" if shared.owner else "the earlier one"
        self.report(
            shared.site,
            f"all parts of the split share the dataset `{shared.target}`: this `{shared.name}` replaces {before}",
            related=[(shared.before, f"`{shared.name}` is set here for the same dataset")],
            help="create a dataset for each part, for example with `copy.copy`",
        )


def _value(node: ast.AST, name: str, statement: ast.AST) -> ast.expr | None:
    """The value that an assignment, or a call with a keyword, gives to an attribute."""
    if isinstance(node, ast.Call):
        return next((item.value for item in node.keywords if item.arg == name), None)
    is_alone = isinstance(statement, ast.Assign) and statement.targets == [node]
    return statement.value if is_alone and isinstance(statement, ast.Assign) else None


def _targets(statement: ast.AST) -> list[ast.AST]:
    return list(statement.targets) if isinstance(statement, ast.Assign) else []


def _roots(nodes: Iterable[ast.AST]) -> set[str]:
    """The names in an expression, including attributes of an object such as `self.train_set`."""
    found = {name for node in nodes for item in python_ast.walk(node) if (name := python_ast.dotted(item))}
    return found - {"self"}
