"""Changes of lists and counters in functions that run again in the backward pass."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.model import definitions
from torchlint.model.queries import names
from torchlint.pytorch import api, naming
from torchlint.syntax import python_ast

_GROWING = frozenset({"append", "appendleft", "extend", "insert"})


class RepeatedEffect(NamedTuple):
    """A change of `name` at `site`, in a function that the call at `checkpoint` runs twice."""

    site: python_ast.Site
    name: str
    grows: bool
    """Whether a list receives an element, rather than a number or tensor a summand."""
    checkpoint: python_ast.Site


class SideEffectInCheckpoint(Rule):
    """A checkpointed function changes a list or a counter, and runs twice.

    ## What it does
    Analyzes the functions in the file that `torch.utils.checkpoint.checkpoint` runs, and the functions that they call.
    Finds appends to lists that outlive the call, and additions to attributes and to variables of an outer scope.

    Not reported: random numbers, because `checkpoint` replays them.

    ## Why is this bad?
    A checkpoint stores no activations. It runs the function again in the backward pass, so each batch is counted twice.
    A list of auxiliary losses or attention maps contains every entry twice, and no `backward` uses the graph of the
    second entry.

    ## Example
    ```python
    import torch
    from torch.utils.checkpoint import checkpoint

    class Block(torch.nn.Module):
        def forward(self, x):
            return checkpoint(self.attend, x, use_reentrant=False)

        def attend(self, x):
            weights = x.softmax(-1)
            self.maps.append(weights)
            return weights @ x
    ```

    Use instead:
    ```python
    import torch
    from torch.utils.checkpoint import checkpoint

    class Block(torch.nn.Module):
        def forward(self, x):
            x, weights = checkpoint(self.attend, x, use_reentrant=False)
            self.maps.append(weights)
            return x

        def attend(self, x):
            weights = x.softmax(-1)
            return weights @ x, weights
    ```

    ## References
    - [torch.utils.checkpoint](https://docs.pytorch.org/docs/stable/checkpoint.html)
    """

    code = "TL206"
    category = Category.SUSPICIOUS
    preview = True
    triggers = ((b"checkpoint",), (b"torch",), (b"append", b"extend", b"insert", b"+=", b"-=", b"*="))

    def ask(self) -> Iterator[RepeatedEffect]:
        own = self.model.definitions
        if self.model.is_test:
            return
        for call in self.model.tree.of_type(ast.Call):
            if own.named(call.func) in api.CHECKPOINTS:
                given = [*call.args[:1], *(item.value for item in call.keywords if item.arg == "function")]
                for function in self._functions(given[0]) if given else ():
                    yield from self._effects(function, python_ast.site_of(call))

    def _functions(self, given: ast.expr) -> Iterator[definitions.FunctionInfo]:
        """The function that a checkpoint runs, and functions of the file that it calls."""
        found: set[definitions.FunctionInfo] = set()
        first = names.function(given, self.model.definitions)
        stack = [first] if first is not None else []
        while stack:
            function = stack.pop()
            if function in found:
                continue
            found.add(function)
            yield function
            calls = (node for node in names.own_nodes(function.node) if isinstance(node, ast.Call))
            called = (names.function(call.func, self.model.definitions) for call in calls)
            stack.extend(other for other in called if other is not None)

    def _effects(self, function: definitions.FunctionInfo, checkpoint: python_ast.Site) -> Iterator[RepeatedEffect]:
        for node in names.own_nodes(function.node):
            grows, target = _changed(node)
            if target is None or self._tells_runs_apart(node, function):
                continue
            if self._outlives(target, function, grows=grows):
                yield RepeatedEffect(python_ast.site_of(node), self.model.tree.code(target), grows, checkpoint)

    def _outlives(self, target: ast.expr, function: definitions.FunctionInfo, *, grows: bool) -> bool:
        """Whether the changed object is an attribute, or belongs to a scope outside the function."""
        node: ast.expr = target
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        if not isinstance(node, ast.Name):
            return False
        if function.is_method and node.id == function.parameters[0]:
            return True
        is_rebound = target is node and not grows
        return node.id in _outer_names(function) if is_rebound else node.id not in _bound_names(function)

    def _tells_runs_apart(self, node: ast.AST, function: definitions.FunctionInfo) -> bool:
        """Whether a condition on a change distinguishes the first run from the second."""
        tests: list[ast.expr] = []
        for item in self.model.tree.ancestors(node):
            if item is function.node:
                break
            if isinstance(item, ast.If):
                tests.append(item.test)
        names = {name for test in tests for name in python_ast.names_read(test)}
        return any(naming.TELLS_RECOMPUTATION.search(name) for name in names)

    def report_RepeatedEffect(self, effect: RepeatedEffect) -> None:
        what = "receives everything twice" if effect.grows else "is changed twice"
        self.report(
            effect.site,
            f"`{effect.name}` {what}: the function is checkpointed, and runs again in the backward pass",
            related=[(effect.checkpoint, "the checkpoint is here")],
            help="return the value from the function, and store it after the checkpoint",
        )


def _changed(node: ast.AST) -> tuple[bool, ast.expr | None]:
    """The name of the object that a statement appends or adds to, and whether it is a list; None: neither."""
    if isinstance(node, ast.AugAssign):
        return False, node.target
    method = node.value.func if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
    grows = isinstance(method, ast.Attribute) and method.attr in _GROWING
    return grows, method.value if isinstance(method, ast.Attribute) and grows else None


def _outer_names(function: definitions.FunctionInfo) -> set[str]:
    """The names that a function declares as belonging to an outer scope."""
    nodes = (node for node in names.own_nodes(function.node) if isinstance(node, (ast.Global, ast.Nonlocal)))
    return {name for node in nodes for name in node.names}


def _bound_names(function: definitions.FunctionInfo) -> set[str]:
    """A function's own names: its parameters, and the names that it assigns."""
    nodes = (node for node in names.own_nodes(function.node) if isinstance(node, ast.Name))
    stored = {node.id for node in nodes if isinstance(node.ctx, ast.Store)}
    rest = (function.node.args.vararg, function.node.args.kwarg)
    return {*function.parameters, *(item.arg for item in rest if item is not None), *stored} - _outer_names(function)
