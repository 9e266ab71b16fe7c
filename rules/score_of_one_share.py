"""Validation scores that each distributed process computes from its own share of the data."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.model.queries import held_out, names, records
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_SAMPLERS = (
    "torch.utils.data.distributed.DistributedSampler",
    "torch.utils.data.DistributedSampler",
)
_COMBINING = (
    b"reduce", b"gather", b"torchmetrics", b"torcheval", b"accelerat", b"lightning", b"ignite", b"horovod", b"hvd",
    b"deepspeed", b"synchronize_between", b"sync_dist", b"composer", b"catalyst", b"broadcast", b"world_average",
)  # fmt: skip
"""Words of programs that may combine the scores of all processes."""


class OneShare(NamedTuple):
    """The score at `site` covers the share that the sampler at `sampler` selects, and decides a record at `record`."""

    site: Site
    sampler: Site
    record: Site
    name: str
    loader: str


class ScoreOfOneShare(Rule):
    """The best checkpoint is chosen by the score of one process's share of the data.

    ## What it does
    Finds a validation loader with a `DistributedSampler`, whose score decides the best result so far. Nothing in the
    repository combines the scores of the processes, such as `all_reduce`, `gather` or `torchmetrics`.

    ## Why is this bad?
    With N processes, the score covers one N-th of the validation set. Each process has another score. The best
    checkpoint depends on which samples process 0 has, and the reported score is noisy.

    ## Example
    ```python
    import torch
    from torch.utils.data import DataLoader
    from torch.utils.data.distributed import DistributedSampler

    def train(model, val_set, fit, accuracy):
        val_loader = DataLoader(val_set, batch_size=8, sampler=DistributedSampler(val_set, shuffle=False))
        best = 0.0
        for epoch in range(10):
            fit(model)
            score = accuracy(model, val_loader)
            if score > best:
                best = score
                torch.save(model.state_dict(), "best.pt")
    ```

    Use instead:
    ```python
    import torch
    import torch.distributed as dist
    from torch.utils.data import DataLoader
    from torch.utils.data.distributed import DistributedSampler

    def train(model, val_set, fit, accuracy):
        val_loader = DataLoader(val_set, batch_size=8, sampler=DistributedSampler(val_set, shuffle=False))
        best = 0.0
        for epoch in range(10):
            fit(model)
            score = torch.tensor(accuracy(model, val_loader), device="cuda")
            dist.all_reduce(score, op=dist.ReduceOp.AVG)
            if score.item() > best:
                best = score.item()
                torch.save(model.state_dict(), "best.pt")
    ```

    ## References
    - [torch.distributed.all_reduce](https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_reduce)
    """

    code = "TL679"
    category = Category.SUSPICIOUS
    triggers = ((b"DistributedSampler",), (b"DataLoader",), (b"best", b"Best", b"record", b"max_", b"min_"))

    def ask(self) -> Iterator[OneShare]:
        if self.model.is_test or self.model.mentions(_COMBINING):
            return
        for call, _ in names.calls_of(("torch.utils.data.DataLoader",), self.model.definitions):
            sampler, place = self._sampler(call), python_ast.dotted(self._target(call))
            if sampler is None or not held_out.is_named_held_out(place):
                continue
            for score, record in self._records(place, call):
                site = python_ast.site_of
                yield OneShare(site(score), site(sampler), site(record), self.model.tree.code(score), place)
                return

    def _target(self, call: ast.Call) -> ast.expr | None:
        """The variable or attribute that a statement assigns to."""
        statement = self.model.tree.parent(call)
        is_one = isinstance(statement, ast.Assign) and len(statement.targets) == 1
        return statement.targets[0] if isinstance(statement, ast.Assign) and is_one else None

    def _sampler(self, loader: ast.Call) -> ast.Call | None:
        """The distributed sampler of a loader, which gives each process its own share."""
        given = next((item.value for item in loader.keywords if item.arg == "sampler"), None)
        made = self.model.provenance.created(given) if given is not None else None
        is_distributed = isinstance(made, ast.Call) and self.model.definitions.named(made.func) in _SAMPLERS
        is_whole = isinstance(made, ast.Call) and any(map(_may_be_whole, made.keywords))
        return made if isinstance(made, ast.Call) and is_distributed and not is_whole else None

    def _records(self, loader: str, made: ast.Call) -> Iterator[tuple[ast.expr, ast.Compare]]:
        """The scores computed from a loader that become the best one so far, with the comparison."""
        around = self.model.definitions.function_around
        for condition in self.model.tree.of_type(ast.If):
            if "." not in loader and around(condition) is not around(made):
                continue
            for found in records.comparisons(condition):
                if isinstance(found.score, ast.Name) and records.is_replaced(found, condition.body):
                    score = self._score(found.score, loader)
                    if score is not None:
                        yield score, found.test

    def _score(self, name: ast.Name, loader: str) -> ast.expr | None:
        """The place that binds a score to the result of a function that receives the loader."""
        scope = self.model.tree.scope_around(name)
        for node in python_ast.walk(scope):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                targets = [item for target in node.targets for item in python_ast.walk(target)]
                bound = next((item for item in targets if isinstance(item, ast.Name) and item.id == name.id), None)
                given = map(python_ast.dotted, python_ast.arguments(node.value))
                if bound is not None and loader in given:
                    return bound
        return None

    def report_OneShare(self, found: OneShare) -> None:
        self.report(
            found.site,
            f"`{found.name}` covers one process's share of `{found.loader}`, and decides which checkpoint is best",
            related=[
                (found.sampler, "the sampler gives each process its own share"),
                (found.record, "the best score is decided here"),
            ],
            help="combine the sums and counts of all processes with `all_reduce` first",
            confidence=Confidence.MEDIUM,
        )


def _may_be_whole(keyword: ast.keyword) -> bool:
    """Whether an argument may be a single replica, which has all samples."""
    is_one = isinstance(keyword.value, ast.Constant) and keyword.value.value == 1
    return keyword.arg is None or (keyword.arg == "num_replicas" and is_one)
