"""Averages of weights that leave out buffers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_BUFFERS = frozenset({"buffers", "named_buffers", "running_mean", "update_bn"})

_EVALUATING = LazyPattern(r"(?i)^_?(eval|valid|test)")
"""Names of functions that evaluate what they are given."""


class LeftOut(NamedTuple):
    """The loop at `site` averages the parameters of `name`, and nothing its buffers."""

    site: Site
    name: str


class AverageWithoutBuffers(Rule):
    """An average of weights leaves out the statistics of BatchNorm.

    ## What it does
    Finds loops that average the parameters of two networks, where the average is evaluated, the repository uses
    BatchNorm, and nothing in the class or file touches buffers. A preview: a teacher that runs in training mode, as of
    MoCo and BYOL, uses the statistics of its batch.

    ## Why is this bad?
    Running means and variances are buffers, and no parameters. The average keeps those of the start, while its weights
    move on: in evaluation its activations are normalized by the wrong statistics.

    ## Example
    ```python
    from torch import nn

    def make():
        return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))

    def update(ema, model, decay):
        ema.eval()
        for average, p in zip(ema.parameters(), model.parameters()):
            average.data.mul_(decay).add_(p.data, alpha=1 - decay)
    ```

    Use instead:
    ```python
    from torch import nn

    def make():
        return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))

    def update(ema, model, decay):
        ema.eval()
        for average, p in zip(ema.parameters(), model.parameters()):
            average.data.mul_(decay).add_(p.data, alpha=1 - decay)
        for average, b in zip(ema.buffers(), model.buffers()):
            average.copy_(b)
    ```

    ## What verify shows
    `torchlint verify` follows it: confirmed if the weights of the average change between its calls, and the
    statistics of its BatchNorm never do, while those of the trained model do; refuted if they change too.
    """

    code = "TL324"
    category = Category.SUSPICIOUS
    preview = True
    triggers = ((b"parameters",), (b"zip",))

    def ask(self) -> Iterator[LeftOut]:
        if self.model.is_test or any(node.attr in _BUFFERS for node in self.model.tree.of_type(ast.Attribute)):
            return
        for copy in self.model.provenance.copies:
            loop = self.model.tree.parent(copy.node)
            if isinstance(loop, ast.For) and _averages(loop) and self._is_evaluated(copy.target):
                if self._has_statistics():
                    yield LeftOut(python_ast.site_of(copy.node), self.model.tree.code(copy.target))

    def _has_statistics(self) -> bool:
        """Whether this file, or another one of the repository, names a layer with running statistics."""
        named = (b"resnet", b"efficientnet")
        texts = (self.model.tree.source.code, *self.model.imported_texts)
        return self.model.mentions((b"BatchNorm",)) or any(word in text for text in texts for word in named)

    def _is_evaluated(self, network: ast.expr) -> bool:
        """Whether `eval()` is called on what has this name, or on what it is made of."""
        last = python_ast.dotted(network).rpartition(".")[2]
        made = self.model.provenance.created(network)
        if made is None and isinstance(network, ast.Attribute):
            made = self.model.provenance.assigned_anywhere(network)
        evals = (item.func for item in self.model.tree.of_type(ast.Call) if python_ast.called_name(item) == "eval")
        owners = {python_ast.dotted(item.value).rpartition(".")[2] for item in evals if isinstance(item, ast.Attribute)}
        is_made_so = made is not None and ".eval()" in self.model.tree.code(self.model.tree.statement(made))
        return last in owners or is_made_so or self._is_evaluated_elsewhere(network)

    def _is_evaluated_elsewhere(self, network: ast.expr) -> bool:
        """Whether a file that imports this one hands an attribute to a function that evaluates: `validate(ema.net)`."""
        last = network.attr if isinstance(network, ast.Attribute) else ""
        for other in self.model.importers(last, (b"eval", b"valid", b"test")) if last else ():
            for call in other.tree.of_type(ast.Call):
                given = (item for item in call.args if isinstance(item, ast.Attribute))
                if _EVALUATING.search(python_ast.called_name(call)) and any(item.attr == last for item in given):
                    return True
        return False

    def report_LeftOut(self, found: LeftOut) -> None:
        self.report(
            found.site,
            f"`{found.name}` gets an average of parameters only: the statistics of BatchNorm stay those of the start",
            help="copy the buffers, too: `for average, b in zip(ema.buffers(), model.buffers()): average.copy_(b)`",
        )


def _averages(loop: ast.For) -> bool:
    """Whether a loop weighs what it copies."""
    nodes = [node for statement in loop.body for node in python_ast.walk(statement)]
    methods = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return any(isinstance(node, ast.BinOp) for node in nodes) and bool(
        methods & {"mul_", "lerp_", "add_"} or any(isinstance(getattr(node, "op", None), ast.Mult) for node in nodes)
    )
