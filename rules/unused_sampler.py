"""Samplers that no loader receives."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.index import FileIndex
from torchlint.model.queries import callees, variables, written
from torchlint.syntax import python_ast


class Unused(NamedTuple):
    """The sampler `name`, created at `site`, is read nowhere; the loader at `loader` draws without it."""

    site: python_ast.Site
    name: str
    kind: str
    loader: python_ast.Site


class UnusedSampler(Rule):
    """A sampler is created, but no loader receives it.

    ## What it does
    Finds variables that hold a sampler of PyTorch, such as `WeightedRandomSampler` or `DistributedSampler`, and that
    nothing reads. The same function creates a `DataLoader` without a sampler.

    ## Why is this bad?
    The loader draws as if the sampler did not exist: rare classes stay rare, each process sees all data, and a split by
    `SubsetRandomSampler` trains on the samples of its test set. There is no error.

    ## Example
    ```python
    from torch.utils.data import DataLoader, WeightedRandomSampler

    def make(dataset, weights):
        sampler = WeightedRandomSampler(weights, len(weights))
        return DataLoader(dataset, batch_size=32, shuffle=True)
    ```

    Use instead:
    ```python
    from torch.utils.data import DataLoader, WeightedRandomSampler

    def make(dataset, weights):
        sampler = WeightedRandomSampler(weights, len(weights))
        return DataLoader(dataset, batch_size=32, sampler=sampler)
    ```

    ## References
    - [torch.utils.data.DataLoader](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader)
    """

    code = "TL650"
    category = Category.CORRECTNESS
    triggers = ((b"Sampler",), (b"DataLoader",))

    def ask(self) -> Iterator[Unused]:
        for call in self.model.tree.of_type(ast.Call) if not self.model.is_test else ():
            name = self.model.definitions.named(call.func)
            if not name.startswith("torch.utils.data.") or not name.endswith("Sampler"):
                continue
            statement = self.model.tree.parent(call)
            target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
            loader = self._loader(call) if isinstance(target, ast.Name) and not self._is_read(target) else None
            if isinstance(target, ast.Name) and loader is not None:
                kind = name.rpartition(".")[2]
                yield Unused(python_ast.site_of(target), target.id, kind, python_ast.site_of(loader))

    def _is_read(self, target: ast.Name) -> bool:
        """Whether code may read a variable, also from another scope or by its name."""
        around = self.model.definitions.function_around(target)
        scope = around.node if around is not None else self.model.tree.module
        if variables.is_shared(target.id, self.model.definitions):
            return True
        if callees.reads_by_text(scope, self.model.definitions):
            return True
        reads = FileIndex.of(self.model.tree).reads_of(target.id)
        scopes = [self.model.definitions.function_around(item) for item in reads]
        return any(around is None or item is around or (item is not None and item.enclosing) for item in scopes)

    def _loader(self, call: ast.Call) -> ast.Call | None:
        """A loader without a sampler in the same function."""
        around = self.model.definitions.function_around(call)
        for other in FileIndex.of(self.model.tree).calls_named("DataLoader"):
            if self.model.definitions.named(other.func) != "torch.utils.data.DataLoader":
                continue
            given = {item.arg for item in other.keywords}
            is_plain = not given & {"sampler", "batch_sampler", None} and written.argument(other, 3, "sampler") is None
            if is_plain and self.model.definitions.function_around(other) is around:
                return other
        return None

    def report_Unused(self, found: Unused) -> None:
        self.report(
            found.site,
            f"no loader receives this `{found.kind}`: nothing reads `{found.name}`",
            related=[(found.loader, "this loader draws without it")],
            help=f"pass `sampler={found.name}` to the loader, without `shuffle`",
        )
