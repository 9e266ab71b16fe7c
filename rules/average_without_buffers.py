"""Weight averages that leave out buffers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.index import FileIndex
from torchlint.lazy_pattern import LazyPattern
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_COMMENT = re.compile(rb"#[^\n]*")
_BUFFERS = frozenset({"buffers", "named_buffers", "running_mean", "update_bn"})

_EVALUATING = LazyPattern(r"(?i)^_?(eval|valid|test)")
"""Names of functions that evaluate their argument."""


class LeftOut(NamedTuple):
    """The loop at `site` averages the parameters of `name`, but nothing averages its buffers."""

    site: Site
    name: str


class AverageWithoutBuffers(Rule):
    """A weight average leaves out the statistics of BatchNorm.

    ## What it does
    Finds loops that average the parameters of two networks and ignore their buffers. Reported only if the program
    evaluates the average, the repository uses BatchNorm, and nothing in the class or file touches buffers.

    This rule is a preview because common correct code looks the same, such as the teachers of MoCo and BYOL. They run
    in training mode and use the statistics of their batch.

    ## Why is this bad?
    The averaged model evaluates with wrong statistics. Running means and variances are buffers, not parameters. The
    average keeps their initial values while its weights move on.

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
    `torchlint verify` tracks the average between its calls. It confirms the finding if the weights of the average
    change and its BatchNorm statistics never change, while the statistics of the trained model change. It refutes the
    finding if the statistics of the average change too, for example because it runs in training mode.
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
            if isinstance(loop, ast.For) and self._averages(loop) and self._is_evaluated(copy.target):
                if self._has_statistics():
                    yield LeftOut(python_ast.site_of(copy.node), self.model.tree.code(copy.target))

    def _averages(self, loop: ast.For) -> bool:
        """Whether a loop keeps a part of the values into which it copies others."""
        return any(any(update.kept) for update in self.model.provenance.average_updates(loop))

    def _has_statistics(self) -> bool:
        """Whether the network may have layers with running statistics.

        This file or an import names one. A file that trains no network itself gets its network from any other file.
        """
        named = (b"BatchNorm", b"resnet", b"efficientnet")
        texts = (_COMMENT.sub(b"", text) for text in (self.model.tree.source.code, *self.model.imported_texts))
        is_for_others = not FileIndex.of(self.model.tree).optimizes
        is_named_anywhere = is_for_others and self.model.mentions((b"BatchNorm",))
        return is_named_anywhere or any(word in text for text in texts for word in named)

    def _is_evaluated(self, network: ast.expr) -> bool:
        """Whether the code calls `eval()` on an object of this name, or on the object that it is built from."""
        last = python_ast.dotted(network).rpartition(".")[2]
        made = self.model.provenance.created(network)
        if made is None and isinstance(network, ast.Attribute):
            made = self.model.provenance.assigned_anywhere(network)
        evals = (item.func for item in FileIndex.of(self.model.tree).calls_named("eval"))
        owners = {python_ast.dotted(item.value).rpartition(".")[2] for item in evals if isinstance(item, ast.Attribute)}
        is_made_so = made is not None and ".eval()" in self.model.tree.code(self.model.tree.statement(made))
        return last in owners or is_made_so or self._is_evaluated_elsewhere(network)

    def _is_evaluated_elsewhere(self, network: ast.expr) -> bool:
        """Whether an importing file passes an attribute to a function that evaluates: `validate(ema.net)`."""
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
            f"`{found.name}` averages parameters only: its BatchNorm statistics keep their initial values",
            help="copy the buffers too: `for average, b in zip(ema.buffers(), model.buffers()): average.copy_(b)`",
        )
