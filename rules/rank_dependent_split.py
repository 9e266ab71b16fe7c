"""Splits and orders of data that differ between the processes of a distributed program."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import names, ranks, written
from torchlint.pytorch import datasets
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_RANK = LazyPattern(r"(?i)(?:^|[._])(?:get_)?(?:global_|local_|ddp_)?rank$")
_SAMPLERS = frozenset({"torch.utils.data.DistributedSampler", "torch.utils.data.distributed.DistributedSampler"})
_SEEDS = frozenset({"torch.manual_seed", "torch.random.manual_seed"})


class OwnOrder(NamedTuple):
    """The sampler at `site` gets a seed that depends on the rank."""

    site: Site


class OwnSplit(NamedTuple):
    """The split at `site` draws from the generator that `seed` seeds with the rank."""

    site: Site
    seed: Site


class RankDependentSplit(Rule):
    """Each distributed process has a different split or order of the data.

    ## What it does
    Finds `DistributedSampler` with a seed that depends on the rank. Also finds `random_split` without a generator in
    programs that use `DistributedSampler` and seed PyTorch with the rank.

    ## Why is this bad?
    A distributed sampler gives each process every n-th sample of one common order. With different orders, processes
    share some samples and skip others. With different splits, each process trains on samples that another process
    validates on. The averaged gradients then mix training and validation data.

    ## Example
    ```python
    from torch.utils.data import DistributedSampler

    def sampler(dataset, seed, rank):
        return DistributedSampler(dataset, seed=seed + rank)
    ```

    Use instead:
    ```python
    from torch.utils.data import DistributedSampler

    def sampler(dataset, seed, rank):
        return DistributedSampler(dataset, seed=seed)
    ```

    ## References
    - [DistributedSampler](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler):
      "This number should be identical across all processes"
    """

    code = "TL627"
    category = Category.CORRECTNESS
    triggers = ((b"DistributedSampler", b"random_split"), (b"rank",))

    def ask(self) -> Iterator[OwnOrder | OwnSplit]:
        if self.model.is_test:
            return
        definitions = self.model.definitions
        samplers = [call for call, _ in names.calls_of(_SAMPLERS, definitions)]
        for call in samplers:
            seed = written.argument(call, 4, "seed")
            if seed is not None and self._has_rank(written.value_of(seed, definitions)):
                yield OwnOrder(python_ast.site_of(seed))
        seeding = (call for call, _ in names.calls_of(_SEEDS, definitions)) if samplers else ()
        seeds = [call for call in seeding if call.args and self._has_rank(call.args[0])]
        for call, _ in names.calls_of(datasets.SPLITS, definitions) if seeds else ():
            if len(call.args) == 2 and not call.keywords and self._is_behind(call, seeds[0]):
                yield OwnSplit(python_ast.site_of(call), python_ast.site_of(seeds[0]))

    def _has_rank(self, node: ast.expr) -> bool:
        """Whether an expression surely depends on the rank: a sum or product with it."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
            return self._has_rank(node.left) or self._has_rank(node.right)
        called = node.func if isinstance(node, ast.Call) and not node.args else node
        return bool(_RANK.search(python_ast.dotted(called))) or ranks.is_rank(node, self.model.definitions)

    def _is_behind(self, split: ast.Call, seed: ast.Call) -> bool:
        """Whether a split comes after a seed in one function."""
        around = self.model.tree.function_around
        return around(split) is around(seed) and split.lineno > seed.lineno

    def report_OwnOrder(self, found: OwnOrder) -> None:
        self.report(
            found.site,
            "the seed of the sampler depends on the rank: processes share some samples and skip others",
            help="give all processes the same seed",
        )

    def report_OwnSplit(self, found: OwnSplit) -> None:
        self.report(
            found.site,
            "each process draws a different split: one trains on samples that another one validates on",
            related=[(found.seed, "the seed depends on the rank")],
            help="pass `generator=torch.Generator().manual_seed(seed)`",
        )
