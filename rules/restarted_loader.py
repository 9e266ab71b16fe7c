"""Loaders that restart in each training step."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import events, values
from torchlint.model.queries import names
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_LOADER = LazyPattern(r"loader|(^|_)dl$|batches")
_EVALUATION = LazyPattern(r"val|test|eval|dev(_|$)")


class Restart(NamedTuple):
    """The loader restarts at `site` in each step."""

    site: Site
    name: str
    shuffles: values.Answer


class RestartedLoader(Rule):
    """`next(iter(loader))` in a training loop restarts the loader in each step.

    ## What it does
    Finds `next(iter(loader))` in a loop with a backward pass, directly or in a function that the loop calls. This rule
    is a preview because the dataset may be an endless stream, or the loader may have a single batch.

    ## Why is this bad?
    A new iterator starts with the first batch. Without `shuffle=True`, each step trains on the same batch. With it,
    each step starts all workers again and loads several batches to use one of them. Some samples are rarely used.

    ## Example
    ```python
    import torch
    from torch.utils.data import DataLoader

    def train(dataset, model: torch.nn.Linear, optimizer):
        loader = DataLoader(dataset, batch_size=32)
        for step in range(1000):
            x, y = next(iter(loader))
            optimizer.zero_grad()
            (model(x) - y).pow(2).mean().backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch
    from torch.utils.data import DataLoader

    def train(dataset, model: torch.nn.Linear, optimizer):
        loader = DataLoader(dataset, batch_size=32)
        for x, y in loader:
            optimizer.zero_grad()
            (model(x) - y).pow(2).mean().backward()
            optimizer.step()
    ```
    """

    code = "TL616"
    category = Category.SUSPICIOUS
    preview = True
    triggers = ((b"next",), (b"iter",), (b"backward",))
    calls = frozenset({"DataLoader"})

    def ask(self) -> Iterator[Restart]:
        if self.model.is_test:
            return
        seen: set[Site] = set()
        for event in (event for trace in self.model.program.traces for event in trace.of(events.Backward)):
            loops = [loop for loop in event.loops if not loop.implicit]
            node = self.model.tree.node(loops[-1].site) if loops else None
            if not isinstance(node, (ast.For, ast.While)) or loops[-1].site in seen:
                continue
            seen.add(loops[-1].site)
            own = self.model.definitions.names_assigned([node])
            for call in _own_calls(node):
                place = self._drawn_by_method(call)
                loader = self._restarted(call) if place is None else _drawn(place)
                name = python_ast.dotted(loader) if loader is not None else ""
                if name and name not in own and not _EVALUATION.search(name.lower()):
                    yield from self._restart(call if place is None else place, name)

    def _restart(self, call: ast.Call, name: str) -> Iterator[Restart]:
        """The iterable that restarts, if it is a loader of several batches."""
        label = name.rpartition(".")[2]
        known = [item for item in self.model.program.observations.loaders if item.label == label]
        tree, around = self.model.tree, self.model.tree.function_around(call)
        made = ((tree.own_node(item.site), item) for item in known)
        known = [item for node, item in made if node is not None and tree.function_around(node) is around] or known
        if known and not any(map(self.model.datasets.is_one_batch, known)):
            answers = {self.model.datasets.shuffles(item) for item in known}
        elif not known and _LOADER.search(label.lower()):
            answers = {values.Answer.UNKNOWN}
        else:
            return
        yield Restart(python_ast.site_of(call), name, answers.pop() if len(answers) == 1 else values.Answer.UNKNOWN)

    def _restarted(self, call: ast.Call) -> ast.expr | None:
        """The loader of `next(iter(loader))`, or of a function that contains this call."""
        if (inner := _drawn(call)) is not None:
            return inner
        function = names.function(call.func, self.model.definitions)
        if function is None or function.is_method:
            return None
        inside = (_drawn(item) for item in python_ast.walk(function.node) if isinstance(item, ast.Call))
        drawn = [item for item in inside if isinstance(item, ast.Name)]
        if len(drawn) != 1 or drawn[0].id not in function.parameters:
            return None
        index = function.parameters.index(drawn[0].id)
        given = {item.arg: item.value for item in call.keywords}.get(drawn[0].id)
        return given or (call.args[index] if index < len(call.args) else None)

    def _drawn_by_method(self, call: ast.Call) -> ast.Call | None:
        """The `next(iter(self.loader))` that each call to the object's own method makes."""
        function = names.function(call.func, self.model.definitions)
        if function is None or not function.is_method or isinstance(function.node, ast.Lambda):
            return None
        for inner in _calls_in(function.node.body):
            loader = _drawn(inner)
            if isinstance(loader, ast.Attribute) and python_ast.dotted(loader.value) == function.parameters[0]:
                return inner
        return None

    def report_Restart(self, found: Restart) -> None:
        does = "trains on its first batch" if found.shuffles is values.Answer.NO else "starts its workers for one batch"
        self.report(
            found.site,
            f"`{found.name}` restarts here: each step {does}",
            help="iterate over the loader, or renew one iterator on `StopIteration`",
            confidence=Confidence.LOW,
        )


def _own_calls(loop: ast.For | ast.While) -> Iterator[ast.Call]:
    """The calls that each iteration of a loop makes, outside inner loops and conditions."""
    return _calls_in(loop.body)


def _calls_in(body: list[ast.stmt]) -> Iterator[ast.Call]:
    nested = (*python_ast.LOOPS, *python_ast.SCOPES, ast.If, ast.Try, ast.IfExp)
    own = (part for part in body if not isinstance(part, nested))
    nodes = (node for part in own for node in python_ast.walk_outside(part, nested))
    return (node for node in nodes if isinstance(node, ast.Call))


def _drawn(call: ast.Call) -> ast.expr | None:
    """The loader of the expression `next(iter(loader))`."""
    inner = call.args[0] if call.args and python_ast.dotted(call.func) == "next" else None
    is_iter = isinstance(inner, ast.Call) and python_ast.dotted(inner.func) == "iter" and len(inner.args) == 1
    return inner.args[0] if is_iter and isinstance(inner, ast.Call) else None
