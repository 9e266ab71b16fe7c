"""Seeds for the GPU only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import names
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.model.definitions import FunctionInfo

_OF_GPU = frozenset({"torch.cuda.manual_seed", "torch.cuda.manual_seed_all"})
_OF_OTHERS = frozenset({"random.seed", "numpy.random.seed"})
_SEEDS_ALL = LazyPattern(rb"manual_seed|seed_everything|set_rng_state|fork_rng|set_seed\(|torch\.seed\(|seed_all\b")
_SETS = LazyPattern(r"(?i)determinis|reproduc|seed")
"""Names of functions that may set all seeds."""


class OnlyGpu(NamedTuple):
    """The function of the call `site` seeds Python, NumPy and the GPUs, but not the CPU generator."""

    site: python_ast.Site
    called: str
    other: python_ast.Site


class UnseededCpu(Rule):
    """A program seeds the GPU generator of PyTorch but not the CPU generator.

    ## What it does
    Finds functions that seed Python or NumPy and call `torch.cuda.manual_seed`, in files that never call
    `torch.manual_seed` or another function that sets all seeds.

    ## Why is this bad?
    Each run starts from different weights and has different batches, although the program looks reproducible. Layers
    draw their initial weights from the CPU generator, and so does a loader with `shuffle=True`.

    ## Example
    ```python
    import random
    import torch

    def set_up(seed):
        random.seed(seed)
        torch.cuda.manual_seed_all(seed)
    ```

    Use instead:
    ```python
    import random
    import torch

    def set_up(seed):
        random.seed(seed)
        torch.manual_seed(seed)
    ```

    ## References
    - [torch.manual_seed](https://docs.pytorch.org/docs/stable/generated/torch.manual_seed.html): "Sets the seed for
      generating random numbers on all devices"
    """

    code = "TL646"
    category = Category.CORRECTNESS
    triggers = ((b"cuda.manual_seed",), (b"random.seed",))

    def ask(self) -> Iterator[OnlyGpu]:
        known = self.model.definitions
        if self.model.is_test or self._seeds_elsewhere():
            return
        if any(map(self._may_seed, self.model.tree.of_type(ast.Call))):
            return
        calls = [(call, names.imported(call.func, known)) for call in self.model.tree.of_type(ast.Call)]
        others = [call for call, name in calls if name in _OF_OTHERS]
        for call, name in calls:
            around = known.function_around(call)
            beside = next((item for item in others if known.function_around(item) is around), None)
            if name in _OF_GPU and beside is not None and not self._seeds_before(around):
                yield OnlyGpu(python_ast.site_of(call), name, python_ast.site_of(beside))
                return

    def _may_seed(self, call: ast.Call) -> bool:
        """Whether a call of another library may set all seeds, by its name: `set_deterministic(args)`."""
        name = names.imported(call.func, self.model.definitions)
        is_known = name.startswith("torch.") or name in _OF_OTHERS
        return not is_known and _SETS.search(python_ast.called_name(call)) is not None and not self._is_own(call)

    def _is_own(self, call: ast.Call) -> bool:
        """Whether the file defines the called function, which this rule analyzes too."""
        return names.function(call.func, self.model.definitions) is not None

    def _seeds_elsewhere(self) -> bool:
        """Whether this file or one that it imports may seed the CPU generator."""
        return any(map(_seeds_all, [self.model.tree.source.code, *self.model.imported_texts]))

    def _seeds_before(self, around: FunctionInfo | None) -> bool:
        """Whether a file that uses a function may seed the CPU generator, or whether it is not known."""
        files = self.model.importers(around.name, (b"seed",)) if around is not None else iter(())
        return any(_seeds_all(file.tree.source.code) for file in files)

    def report_OnlyGpu(self, found: OnlyGpu) -> None:
        self.report(
            found.site,
            f"`{found.called}` seeds only the GPUs: weights and batches differ from run to run",
            related=[(found.other, "this seeds another generator")],
            help="call `torch.manual_seed`, which seeds the CPU and all GPUs",
        )


def _seeds_all(code: bytes) -> bool:
    """Whether code may seed the CPU generator."""
    return _SEEDS_ALL.search(code.replace(b"cuda.manual_seed", b"")) is not None
