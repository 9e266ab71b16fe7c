"""Hidden states that carry the graph of the previous batch."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeGuard

from torchlint import Category, Rule, edits
from torchlint.model import values
from torchlint.pytorch import triggers
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.index import FileIndex

    from ._carried_graphs import CarriedGraph


class UndetachedHiddenState(Rule):
    """A hidden state is not detached between batches: the second backward raises.

    ## What it does
    Finds a value that one iteration computes and the next iteration uses without detaching it, while each iteration
    calls `backward`. Examples are the hidden state of a recurrent network and a smoothed loss. The value may also be an
    attribute:

    - A method reads the attribute, calls `backward`, and sets the attribute for the next call.
    - The `forward` of a module reads and sets the attribute, and the loop neither resets nor detaches it.

    With `retain_graph=True` there is no error, but the graph grows with each batch: see `retain-graph-in-loop`.

    ## Why is this bad?
    The loss of the second batch depends on the graph of the first batch, which the first `backward` has freed. PyTorch
    raises "Trying to backward through the graph a second time". If the optimizer steps in between, the error may say
    instead that an in-place operation modified a tensor.

    ## Example
    ```python
    import torch
    from torch import nn

    def train(chunks, criterion):
        rnn, head = nn.GRU(32, 64), nn.Linear(64, 10)
        optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
        h = torch.zeros(1, 8, 64)
        for x, y in chunks:
            optimizer.zero_grad()
            out, h = rnn(x, h)
            criterion(head(out), y).backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch
    from torch import nn

    def train(chunks, criterion):
        rnn, head = nn.GRU(32, 64), nn.Linear(64, 10)
        optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
        h = torch.zeros(1, 8, 64)
        for x, y in chunks:
            optimizer.zero_grad()
            out, h = rnn(x, h)
            criterion(head(out), y).backward()
            optimizer.step()
            h = h.detach()
    ```

    ## Fix safety
    The fix detaches the state. It is unsafe, because gradients then no longer flow back into earlier batches. That is
    usually what you want.

    ## What verify shows
    `torchlint verify` confirms the finding if PyTorch raises one of these errors in the `backward` after the line. It
    refutes the finding if three backward passes in the function work without an error and free their graphs.

    ## References
    - [Word language model](https://github.com/pytorch/examples/tree/main/word_language_model): `repackage_hidden`
    """

    code = "TL203"
    category = Category.CORRECTNESS
    triggers = (triggers.BACKWARD,)

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward

    def ask(self) -> Iterable[CarriedGraph]:
        from ._carried_graphs import CarriedGraphs

        return CarriedGraphs(self.model).carried()

    def report_CarriedGraph(self, carried: CarriedGraph) -> None:
        site = carried.user.site or carried.maker.site
        assert site is not None
        name = carried.name or "its state"
        again = "batch" if carried.loop is not None else "call"
        related = [(carried.backward.site, "this frees the graph that the next `backward` needs")]
        if carried.loop is not None:
            related.append((carried.loop.site, "in this loop"))
        if carried.maker.site not in (None, site):
            related.append((carried.maker.site, "the graph is built here"))
        self.report(
            site,
            f"`{name}` still carries the previous {again}'s graph: the second `backward` raises",
            related=related,
            help=f"detach `{name}` after the `backward`",
            fix=self._fix(carried, name),
        )

    def _fix(self, carried: CarriedGraph, name: str) -> edits.Change | None:
        """The state detached after the backward, where a loop assigns it to a name as a tensor or tuple of tensors."""
        tree, site = self.model.tree, carried.maker.site
        statement = tree.statement(tree.node(site)) if site is not None else None
        backward = tree.node(carried.backward.site)
        written = self.written(carried.backward.site)
        if carried.loop is None or written is None or not tree.stands_alone(backward):
            return None
        if not isinstance(statement, ast.Assign) or statement not in tree.block(backward):
            return None
        bound = [
            node.id for target in statement.targets for node in python_ast.walk(target) if isinstance(node, ast.Name)
        ]
        module = values.resolved(carried.maker.parents[0]) if carried.maker.parents else carried.maker
        detached = _DETACHED.get((module.name.rpartition(".")[2], len(bound))) if _is_of_torch(module) else None
        if detached is None or bound[-1] != name:
            return None
        code = f"{name} = {detached.format(name)}"
        return edits.Change("detach it after the backward", [edits.InsertAfter(written, code)])


_DETACHED = {
    ("RNN", 2): "{}.detach()",
    ("GRU", 2): "{}.detach()",
    ("RNNCell", 1): "{}.detach()",
    ("GRUCell", 1): "{}.detach()",
    ("LSTM", 2): "tuple(part.detach() for part in {})",
}
"""The state without its graph, by the module that computed it and the number of names for its results."""


def _is_of_torch(module: values.Value) -> TypeGuard[values.Module]:
    return isinstance(module, values.Module) and module.info is None
