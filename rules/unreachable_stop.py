"""Early stopping whose flag nothing sets."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import definitions
from torchlint.syntax import python_ast

_FLAG = LazyPattern(r"(?i)^(?:early_?stop(?:ped|ping)?|(?:should_|do_)?stop|stop_training|is_stopped)$")
_PATIENCE = LazyPattern(r"(?i)patience|wait")
_BY_NAME = (b"setattr(", b"__dict__", b"vars(")
"""Words of code that may set an attribute by its name."""


class NeverStops(NamedTuple):
    """The flag `flag` is False since `site`, and the condition at `test` would end the training."""

    site: python_ast.Site
    test: python_ast.Site
    flag: str


class UnreachableStop(Rule):
    """Early stopping never ends the training, because nothing sets its flag.

    ## What it does
    Finds classes for early stopping, with a patience and a flag such as `early_stop`, where the program ends the
    training if the flag is set, but every assignment sets it to False.

    Not reported for classes with a base class or a subclass, and where code may set attributes by name.

    ## Why is this bad?
    Training always runs for all epochs. The comparison that counts the epochs without progress is usually missing, too:
    then each epoch counts as the best one, and the last weights overwrite the best ones.

    ## Example
    ```python
    import torch

    class EarlyStopping:
        def __init__(self, patience):
            self.patience, self.best, self.early_stop = patience, None, False

        def __call__(self, loss, model):
            self.best = loss
            torch.save(model.state_dict(), "best.pt")

    def fit(model, epochs, train, validate):
        stopping = EarlyStopping(5)
        for epoch in range(epochs):
            train(model)
            stopping(validate(model), model)
            if stopping.early_stop:
                break
    ```

    Use instead:
    ```python
    import torch

    class EarlyStopping:
        def __init__(self, patience):
            self.patience, self.best, self.waited, self.early_stop = patience, float("inf"), 0, False

        def __call__(self, loss, model):
            if loss < self.best:
                self.best, self.waited = loss, 0
                torch.save(model.state_dict(), "best.pt")
            else:
                self.waited += 1
                self.early_stop = self.waited >= self.patience

    def fit(model, epochs, train, validate):
        stopping = EarlyStopping(5)
        for epoch in range(epochs):
            train(model)
            stopping(validate(model), model)
            if stopping.early_stop:
                break
    ```
    """

    code = "TL153"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), (b"stop", b"Stop"), (b"atience", b"wait"))

    def ask(self) -> Iterator[NeverStops]:
        for info in [] if self.model.is_test else self.model.definitions.classes.values():
            flags = {item.attr: item for item in _stores(info) if _FLAG.search(item.attr)}
            has_patience = any(_PATIENCE.search(item.attr) for item in _stores(info))
            for flag, store in flags.items() if has_patience else ():
                test = self._test(info, flag) if self._is_off(info, flag) else None
                if test is not None:
                    yield NeverStops(python_ast.site_of(store), python_ast.site_of(test), f"self.{flag}")

    def _is_off(self, info: definitions.ClassInfo, flag: str) -> bool:
        """Whether every assignment to a flag, in any file, sets it to False."""
        classes = self.model.definitions.classes.values()
        is_derived = any(info in other.ancestors() for other in classes if other is not info)
        is_by_name = any(word in self.model.tree.source.code for word in _BY_NAME)
        if is_derived or is_by_name or any(item not in (info, "object") for item in info.ancestors()):
            return False
        own = list(_stores(info, flag))
        return all(map(self._is_false, own)) and len(list(self.model.stores_of(flag))) == len(own)

    def _is_false(self, store: ast.Attribute) -> bool:
        """Whether an assignment sets an attribute to False."""
        statement = self.model.tree.statement(store)
        value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else None
        for target in statement.targets if isinstance(statement, ast.Assign) else ():
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and store in target.elts:
                value = value.elts[target.elts.index(store)] if len(value.elts) == len(target.elts) else None
        return value is not None and python_ast.is_literal(value, False)

    def _test(self, info: definitions.ClassInfo, flag: str) -> ast.expr | None:
        """The condition of this file that ends a loop if the flag is set; a place in the class if others read it."""
        branches: Iterator[ast.If] = self.model.tree.of_type(ast.If)
        for branch in branches:
            reads = (item for item in python_ast.walk(branch.test) if isinstance(item, ast.Attribute))
            if any(item.attr == flag for item in reads) and any(
                isinstance(item, (ast.Break, ast.Return)) for part in branch.body for item in python_ast.walk(part)
            ):
                return branch.test
        is_read = next(self.model.importers(info.name, (f".{flag}:".encode(),)), None) is not None
        return next(_stores(info, flag), None) if is_read else None

    def report_NeverStops(self, found: NeverStops) -> None:
        self.report(
            found.site,
            f"nothing sets `{found.flag}` to True, so early stopping never ends the training",
            related=[(found.test, "this would end the training")] if found.test != found.site else (),
            help="count the epochs without progress, and set the flag when their number reaches the patience",
        )


def _stores(info: definitions.ClassInfo, name: str = "") -> Iterator[ast.Attribute]:
    """The assignments to the attributes of `self`, or to one of them, in a class."""
    for node in python_ast.walk(info.node):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and name in ("", node.attr):
            if python_ast.dotted(node.value) == "self":
                yield node
