"""Counters of steps that nothing increases."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.index import FileIndex
from torchlint.model import definitions
from torchlint.model.queries import uses
from torchlint.pytorch import triggers
from torchlint.syntax import python_ast

_BY_NAME = (b"setattr(", b"vars(", b"__dict__", b"globals(", b"exec(")
"""Words of code that may set a variable or an attribute by its name."""
_OWN_BASES = ("torch.nn.", "abc.", "builtins.", "typing.")
_STARTS = (0, 1, -1)


class Stuck(NamedTuple):
    """The remainder at `site` never changes, because `counter` keeps the value of `start`."""

    site: python_ast.Site
    counter: str
    start: python_ast.Site


class StuckCounter(Rule):
    """A counter of steps is never increased, so a condition on it never changes.

    ## What it does
    Finds `counter % k` in training code, where the counter is a variable or an attribute that starts at 0, 1 or -1 and
    is never assigned again.

    Not reported for attributes that other code may set: a base class, a subclass, or another file of the repository.

    ## Why is this bad?
    The condition has the same result in every iteration. With gradient accumulation, the optimizer steps in every
    iteration or never. The program evaluates or saves in each iteration, or never.

    ## Example
    ```python
    import torch

    def train(model, loader, criterion, k):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        step = 0
        for x, y in loader:
            (criterion(model(x), y) / k).backward()
            if (step + 1) % k == 0:
                optimizer.step()
                optimizer.zero_grad()
    ```

    Use instead:
    ```python
    import torch

    def train(model, loader, criterion, k):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        step = 0
        for x, y in loader:
            (criterion(model(x), y) / k).backward()
            if (step + 1) % k == 0:
                optimizer.step()
                optimizer.zero_grad()
            step += 1
    ```
    """

    code = "TL156"
    category = Category.CORRECTNESS
    preview = True
    triggers = (triggers.BACKWARD, (b"%",))

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward

    def ask(self) -> Iterator[Stuck]:
        text = self.model.tree.source.code
        if self.model.is_test or any(word in text for word in _BY_NAME):
            return
        done = set[str]()
        for node in self.model.tree.of_type(ast.BinOp):
            counter = _counted(node.left) if isinstance(node.op, ast.Mod) else None
            start = self._only_start(counter) if counter is not None and self._is_repeated(node) else None
            if counter is not None and start is not None and python_ast.dotted(counter) not in done:
                done.add(python_ast.dotted(counter))
                yield Stuck(python_ast.site_of(node), python_ast.dotted(counter), python_ast.site_of(start))

    def _is_repeated(self, node: ast.AST) -> bool:
        """Whether a condition contains an expression, in a loop or in a method that trains step by step."""
        around = list(self.model.tree.ancestors(node))
        function = next((item for item in around if isinstance(item, python_ast.FUNCTIONS)), None)
        inner = around[: around.index(function)] if function is not None else around
        if not any(isinstance(item, ast.If) and node in set(python_ast.walk(item.test)) for item in inner):
            return False
        return any(isinstance(item, python_ast.LOOPS) for item in inner) or function is not None

    def _only_start(self, counter: ast.expr) -> ast.expr | None:
        """The only assignment of a counter, if it is a number."""
        stores, loop = uses.stores(counter, self.model) or [], self.model.tree.loop_around(counter)
        function = self.model.definitions.function_around(counter)
        if not stores or not all(map(self._is_start, stores)):
            return None
        if isinstance(counter, ast.Name):
            is_inner = function is not None and function.enclosing is not None
            is_outside = len(stores) == 1 and loop is not None and loop not in self.model.tree.ancestors(stores[0])
            return stores[0] if is_outside and not is_inner else None
        method = self.model.definitions.method_around(counter)
        owner = method.owner if method is not None else None
        if owner is None or not isinstance(counter, ast.Attribute) or self._is_shared(owner, counter.attr):
            return None
        is_own = all(self.model.definitions.method_around(item) in owner.methods.values() for item in stores)
        return stores[0] if is_own else None

    def _is_start(self, store: ast.expr) -> bool:
        """Whether a store assigns a number with which counters start."""
        parent = self.model.tree.parent(store)
        value = parent.value if isinstance(parent, (ast.Assign, ast.AnnAssign)) else None
        try:
            return type(number := ast.literal_eval(value)) is int and number in _STARTS if value is not None else False
        except ValueError:
            return False

    def _is_shared(self, owner: definitions.ClassInfo, name: str) -> bool:
        """Whether other code may set an attribute: unknown bases, subclasses, or another file."""
        bases = [item for item in owner.ancestors() if item is not owner]
        is_known = all(isinstance(item, str) and item.startswith(_OWN_BASES) for item in bases)
        word = name.encode()
        increases = tuple(b".%s%s" % (word, sign) for sign in (b" +=", b"+=", b" -=", b"-="))
        classes = self.model.definitions.classes.values()
        is_derived = any(owner in info.ancestors() for info in classes if info is not owner)
        return (
            not is_known
            or is_derived
            or self.model.mentions(increases)
            or any(True for _ in self.model.importers(owner.name, (b"(%s)" % owner.name.encode(), b"." + word + b" ")))
        )

    def report_Stuck(self, found: Stuck) -> None:
        self.report(
            found.site,
            f"`{found.counter}` is never increased: this remainder is the same in every iteration",
            related=[(found.start, "the counter keeps this value")],
            help=f"increase `{found.counter}` in each iteration",
        )


def _counted(node: ast.expr) -> ast.expr | None:
    """`step` of `step`, `step + 1` or `1 + step`, as a variable or an attribute of `self`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        parts = [item for item in (node.left, node.right) if not isinstance(item, ast.Constant)]
        node = parts[0] if len(parts) == 1 else node
    is_own = isinstance(node, ast.Attribute) and python_ast.dotted(node.value) == "self"
    return node if isinstance(node, ast.Name) or is_own else None
