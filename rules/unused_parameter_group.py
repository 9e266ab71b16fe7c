"""Parameter lists that no optimizer receives."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.pytorch import naming
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.model.definitions import FunctionInfo

_FILLING = frozenset({"append", "extend", "add", "insert"})
_OF_PARAMETERS = frozenset({"parameters", "named_parameters"})
_OF_MODULES = frozenset({"modules", "named_modules", "children", "named_children"})


class Unused(NamedTuple):
    """The list `name`, created at `site`, receives parameters at `filled`; the optimizer at `optimizer` lacks it."""

    site: python_ast.Site
    name: str
    filled: python_ast.Site
    optimizer: python_ast.Site


class UnusedParameterGroup(Rule):
    """A list collects parameters, but no optimizer receives it.

    ## What it does
    Finds lists and groups (`{"params": []}`) that a loop over a model's parameters fills and nothing reads, in
    functions that create an optimizer.

    Not reported if these parameters also go elsewhere or are frozen.

    ## Why is this bad?
    The parameters in the list are never trained: they keep their initial values while the rest of the model adapts.
    PyTorch still computes their gradients, which add up.

    ## Example
    ```python
    import torch

    def make(model, lr):
        backbone, head = [], []
        for name, p in model.named_parameters():
            if name.startswith("head"):
                head.append(p)
            else:
                backbone.append(p)
        return torch.optim.AdamW([{"params": backbone, "lr": lr * 0.1}], lr=lr)
    ```

    Use instead:
    ```python
    import torch

    def make(model, lr):
        backbone, head = [], []
        for name, p in model.named_parameters():
            if name.startswith("head"):
                head.append(p)
            else:
                backbone.append(p)
        return torch.optim.AdamW([{"params": backbone, "lr": lr * 0.1}, {"params": head}], lr=lr)
    ```

    ## References
    - [torch.optim: per-parameter options](https://docs.pytorch.org/docs/stable/optim.html#per-parameter-options)
    """

    code = "TL333"
    category = Category.CORRECTNESS
    triggers = ((b"parameters", b"modules", b"children"), (b"append", b"extend", b"+="))

    def ask(self) -> Iterator[Unused]:
        for info in self.model.definitions.functions.values() if not self.model.is_test else ():
            if info.enclosing is not None:
                continue
            optimizer = next(filter(self._makes_optimizer, python_ast.walk(info.node)), None)
            for target, end in self._lists(info) if optimizer is not None else ():
                filled = self._filled(info, target, end)
                if filled and optimizer is not None:
                    sites = python_ast.site_of(target), python_ast.site_of(filled[0]), python_ast.site_of(optimizer)
                    yield Unused(sites[0], target.id, *sites[1:])

    def _makes_optimizer(self, node: ast.AST) -> bool:
        if not isinstance(node, ast.Call) or not node.args + node.keywords:
            return False
        name = self.model.definitions.named(node.func)
        return "lr_scheduler" not in name and naming.is_optimizer_class(name.rpartition(".")[2])

    def _lists(self, info: FunctionInfo) -> Iterator[tuple[ast.Name, int]]:
        """The variables that a function sets to an empty list, or to a group with one.

        Each comes with the line of the next assignment of that name, where one follows.
        """
        bound: dict[str, list[ast.Name]] = {}
        for node in python_ast.walk(info.node):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                if not isinstance(self.model.tree.parent(node), ast.AugAssign):
                    bound.setdefault(node.id, []).append(node)
        for name, stores in bound.items():
            stores.sort(key=lambda item: item.lineno)
            in_order = all(self.model.tree.parent(self.model.tree.statement(item)) is info.node for item in stores)
            if name in info.parameters or (len(stores) > 1 and not in_order):
                continue
            ends = [*(item.lineno for item in stores[1:]), sys.maxsize]
            yield from (
                (item, end)
                for item, end in zip(stores, ends, strict=True)
                if _is_empty(self._value(item)) or self._gets_list(info, item, end)
            )

    def _gets_list(self, info: FunctionInfo, target: ast.Name, end: int) -> bool:
        """Whether a group gets its empty list later: `group = {"lr": lr}; group["params"] = []`."""
        if not isinstance(self._value(target), ast.Dict):
            return False
        same = (node for node in python_ast.walk(info.node) if isinstance(node, ast.Name) and node.id == target.id)
        return any(_starts(self.model.tree.statement(node), node) for node in same if target.lineno < node.lineno < end)

    def _value(self, target: ast.Name) -> ast.expr | None:
        """The value assigned to a name, also in a tuple."""
        parent = self.model.tree.parent(target)
        if isinstance(parent, ast.Assign):
            return parent.value
        whole = self.model.tree.parent(parent) if isinstance(parent, ast.Tuple) else None
        if isinstance(parent, ast.Tuple) and isinstance(whole, ast.Assign) and isinstance(whole.value, ast.Tuple):
            pairs = zip(parent.elts, whole.value.elts, strict=False)
            return next((value for item, value in pairs if item is target), None)
        return None

    def _filled(self, info: FunctionInfo, target: ast.Name, end: int) -> list[ast.AST]:
        """The statements that add parameters to a list, if nothing reads it and they go nowhere else."""
        same = (node for node in python_ast.walk(info.node) if isinstance(node, ast.Name) and node.id == target.id)
        found: list[ast.AST] = []
        for use in (node for node in same if target.lineno <= node.lineno < end):
            statement = self.model.tree.statement(use)
            if use is target or _starts(statement, use):
                continue
            taken = self._taken(statement, use)
            if taken is None or self._is_frozen(statement) or self._goes_elsewhere(statement, taken):
                return []
            found.append(statement)
        return found

    def _taken(self, statement: ast.AST, use: ast.Name) -> ast.expr | None:
        """The parameters that a statement only adds to a list."""
        value: ast.expr | None = None
        if isinstance(statement, ast.AugAssign) and statement.target is use:
            value = statement.value
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            func = statement.value.func
            owner = func.value if isinstance(func, ast.Attribute) and func.attr in _FILLING else None
            owner = owner.value if isinstance(owner, ast.Subscript) else owner
            value = statement.value.args[-1] if owner is use and statement.value.args else None
        read = python_ast.names_read(value) if value is not None else set[str]()
        return value if any(read & self._drawn(loop) for loop in self._loops(statement)) else None

    def _loops(self, statement: ast.AST) -> Iterator[ast.For]:
        return (item for item in self.model.tree.ancestors(statement) if isinstance(item, ast.For))

    def _drawn(self, loop: ast.For) -> set[str]:
        """The variables of a loop that contain parameters, or modules."""
        over = python_ast.called_name(loop.iter) if isinstance(loop.iter, ast.Call) else ""
        if over not in _OF_PARAMETERS | _OF_MODULES:
            return set()
        last = loop.target.elts[-1] if isinstance(loop.target, ast.Tuple) else loop.target
        return {last.id} if isinstance(last, ast.Name) else set()

    def _is_frozen(self, statement: ast.AST) -> bool:
        """Whether a condition shows that these parameters need no training."""
        tests = (item.test for item in self.model.tree.ancestors(statement) if isinstance(item, ast.If))
        flags = (node for test in tests for node in python_ast.walk(test) if isinstance(node, ast.Attribute))
        return any(node.attr == "requires_grad" for node in flags)

    def _goes_elsewhere(self, statement: ast.AST, taken: ast.expr) -> bool:
        """Whether an iteration adds the parameters to another list, freezes them, or has unknown effects."""
        variables = python_ast.names_read(taken)
        for other in self.model.tree.block(statement) if isinstance(statement, ast.stmt) else ():
            if other is not statement and variables & python_ast.names_read(other):
                return True
        for loop in self._loops(statement):
            plain = (item for item in loop.body if not isinstance(item, ast.If))
            if any(item is not statement and self._keeps(item, variables) for item in plain):
                return True
        return False

    def _keeps(self, statement: ast.stmt, variables: set[str]) -> bool:
        """Whether a statement of each iteration may store its parameters, or freeze them."""
        return bool(variables & python_ast.names_read(statement)) and not isinstance(statement, ast.For)

    def report_Unused(self, found: Unused) -> None:
        self.report(
            found.site,
            f"`{found.name}` collects parameters but is never read: they are never trained",
            related=[
                (found.filled, "parameters are added here"),
                (found.optimizer, "the optimizer is created here"),
            ],
            help=f"pass `{found.name}` to the optimizer",
        )


def _starts(statement: ast.AST, use: ast.Name) -> bool:
    """Whether a statement gives a group its empty list: `group["params"] = []`."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if not isinstance(statement, ast.Assign) or not isinstance(target, ast.Subscript) or target.value is not use:
        return False
    return isinstance(target.slice, ast.Constant) and target.slice.value == "params" and _is_empty(statement.value)


def _is_empty(node: ast.expr | None) -> bool:
    """`[]`, `list()`, `{"params": []}`, `dict(params=[])`."""
    if isinstance(node, ast.Call):
        called = python_ast.dotted(node.func)
        own = [item.value for item in node.keywords if item.arg == "params"]
        return not node.args and (
            (called == "list" and not node.keywords) or (called == "dict" and any(map(_is_empty, own)))
        )
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return any(isinstance(key, ast.Constant) and key.value == "params" and _is_empty(value) for key, value in pairs)
    return isinstance(node, ast.List) and not node.elts
