"""Losses that are averaged over the wrong count."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule, edits
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import definitions, events, utilities, values
from torchlint.model.queries import arithmetic, batch_sums, callees, held_out, lengths, losses, names
from torchlint.pytorch import naming
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.index import FileIndex


_LENGTH = LazyPattern(rb"/=?\s*\(?\s*len\s*\(|[=:]\s*len\s*\([^\n]*(loader|dataset|dl|data)")
_COUNT = LazyPattern(rb"\+=\s*(1\b|len\s*\(|\w*batch_?size|bs\b|[\w.]+\.(size\s*\(\s*0|shape\s*\[\s*0))")
"""Additions to a count of batches or samples."""
_GATHERS = LazyPattern(r"(?i)reduce|gather|sync|collect|accelerat|aggregate")
"""Code that combines the numbers of all distributed processes."""


class WrongCount(NamedTuple):
    """The code at `division` divides a sum of losses, per batch or (`by_samples`) per sample, by the other count."""

    division: python_ast.Site
    divisor: python_ast.Site
    addition: python_ast.Site
    total: str
    loader: str
    by_samples: bool
    fixable: bool
    of_matches: bool
    """Whether the sum counts correct predictions instead of adding losses."""
    is_batched: bool
    """Whether the batches are known to hold more than one sample, and the losses are means."""


class OtherData(NamedTuple):
    """The code at `division` divides a sum over `loader` by the length of other data, `counted`."""

    division: python_ast.Site
    loop: python_ast.Site
    total: str
    loader: str
    counted: str
    draws_part: bool
    """Whether a sampler of the loader draws a part of the counted data."""


class MeanScaleMismatch(Rule):
    """A sum of losses is divided by the wrong count: batches or samples.

    ## What it does
    Finds sums over the batches of a loader that are divided by the wrong number:

    - sums of mean losses, divided by the length of the dataset
    - sums of mean losses times the batch size, divided by the number of batches
    - sums over validation data, divided by a length of training data
    - sums over a loader whose sampler draws a part of the dataset, such as `DistributedSampler`, divided by the length
      of the whole dataset

    The losses are PyTorch losses with a known reduction. Sums of correct predictions and of accuracies count too. A sum
    or a count may be in a variable, an attribute, or an entry of a list or dictionary. By default, torchlint reports
    only loops over a loader whose batch size is visible in the file, and sums divided by the length of other data.
    Reported only with `--preview`: all other loops, and losses with `reduction="sum"`.

    ## Why is this bad?
    The reported loss is wrong by a factor of the batch size. It changes with the batch size even if the model does not.
    You cannot compare it with other code or with the other split. A fixed threshold, such as `min_delta` of early
    stopping, has the wrong scale.

    ## Example
    ```python
    import torch.nn.functional as F
    from torch.utils.data import DataLoader

    def evaluate(model, dataset):
        loader = DataLoader(dataset, batch_size=64)
        total = 0.0
        for x, y in loader:
            total += F.cross_entropy(model(x), y).item()
        return total / len(loader.dataset)
    ```

    Use instead:
    ```python
    import torch.nn.functional as F
    from torch.utils.data import DataLoader

    def evaluate(model, dataset):
        loader = DataLoader(dataset, batch_size=64)
        total = 0.0
        for x, y in loader:
            total += F.cross_entropy(model(x), y).item()
        return total / len(loader)
    ```

    ## Fix safety
    The fix divides by the other count. It is unsafe because the reported number changes. The new number is not exact if
    the last batch is smaller or a sampler omits samples. There is no fix if the loop may skip a batch or end early:
    then the code must count the losses that it added.

    ## References
    - [torch.nn.CrossEntropyLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html):
      "'mean': the weighted mean of the output is taken"
    """

    code = "TL506"
    category = Category.SUSPICIOUS
    triggers = (
        (b"+=",),
        (b"/",),
        (b"len", b"size", b"shape", b"==", b".eq("),
        (b"Loss", b"_loss", b"cross_entropy", b"sum", b"mean"),
    )
    calls = frozenset(
        "MSELoss L1Loss CrossEntropyLoss NLLLoss BCELoss BCEWithLogitsLoss SmoothL1Loss HuberLoss mse_loss l1_loss "
        "cross_entropy nll_loss binary_cross_entropy binary_cross_entropy_with_logits smooth_l1_loss huber_loss".split()
    )

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        """Whether code may divide by a length that it states or stores in a dictionary, or by its own count."""
        return bool(_LENGTH.search(index.code)) or bool(_COUNT.search(index.code))

    def ask(self) -> Iterator[WrongCount | OtherData]:
        for addition in self.model.tree.of_type(ast.AugAssign):
            if isinstance(addition.op, ast.Add) and batch_sums.name_of(addition.target):
                yield from self._divisions(addition)

    def _divisions(self, addition: ast.AugAssign) -> Iterator[WrongCount | OtherData]:
        """The divisions after a loop of the total from an addition in that loop by the wrong length."""
        scope = self.model.tree.scope_around(addition)
        loop, total = self.model.tree.parent(addition), batch_sums.name_of(addition.target)
        while isinstance(loop, ast.With):
            loop = self.model.tree.parent(loop)
        if not isinstance(loop, ast.For) or not (loader := batch_sums.loader_of(loop, self.model.definitions)):
            return
        for division in self._divisions_of.get((scope, total), []):
            if division.lineno <= (loop.end_lineno or loop.lineno):
                continue
            divisor = division.right if isinstance(division, ast.BinOp) else division.value
            value = names.only_value(divisor, self.model.definitions) if isinstance(divisor, ast.Name) else None
            counted = batch_sums.counted(value if value is not None else divisor)
            samples = self._samples(addition.value, loop)
            is_wrong = counted == (loader, not samples)
            own = lengths.own_count(divisor, loop, self.model.definitions)
            if (
                own is not None
                and self._is_started(divisor, scope)
                and self._is_sum(batch_sums.name_of(divisor), own, loop, scope)
            ):
                is_wrong = batch_sums.is_batch_size(own.value) is not samples
            is_of_dataset = counted == (loader, True) or lengths.is_dataset_length(
                divisor, loop.iter, self.model.definitions
            )
            draws_part = samples is True and is_of_dataset and self._draws_part(loop)
            if draws_part or (counted is not None and _is_other_data(counted[0], loader)):
                if self._is_sum(total, addition, loop, scope):
                    written = [python_ast.site_of(node) for node in (division, loop)]
                    name = f"{loader}.dataset" if draws_part or counted is None else counted[0]
                    yield OtherData(written[0], written[1], total, loader, name, draws_part)
                continue
            is_wrong |= samples is False and is_of_dataset
            if is_wrong and samples is not None and self._is_sum(total, addition, loop, scope):
                if not self._is_scaled(division) and not self._has_batches_of_one(loop):
                    site = python_ast.site_of
                    sites = site(division), site(divisor), site(addition)
                    counts = self._matches(addition.value, loop) is not None
                    is_summed = self._is_summed_loss(batch_sums.tensor_of(addition.value))
                    is_batched = self._is_batched(loop) and not is_summed
                    yield WrongCount(*sites, total, loader, samples, self._is_whole(loop), counts, is_batched)

    @cached_property
    def _divisions_of(self) -> dict[tuple[ast.AST, str], list[ast.BinOp | ast.AugAssign]]:
        """The divisions of each name in each function and at module level."""
        found: dict[tuple[ast.AST, str], list[ast.BinOp | ast.AugAssign]] = defaultdict(list)
        for node in self.model.tree.of_type(ast.BinOp, ast.AugAssign):
            if isinstance(node.op, ast.Div):
                found[self.model.tree.scope_around(node), batch_sums.dividend(node)].append(node)
        return found

    @cached_property
    def _stores_of(self) -> dict[tuple[ast.AST, str], list[ast.expr]]:
        """The places where each name or slot is bound or deleted, in each function and at module level."""
        found: dict[tuple[ast.AST, str], list[ast.expr]] = defaultdict(list)
        for node in self.model.tree.of_type(ast.Name, ast.Attribute, ast.Subscript):
            if not isinstance(node.ctx, ast.Load):
                found[self.model.tree.scope_around(node), batch_sums.name_of(node)].append(node)
        return found

    def _is_started(self, count: ast.expr, scope: ast.AST) -> bool:
        """Whether the code around sets a count; `_is_sum` checks that it sets it to 0."""
        stores = self._stores_of.get((scope, batch_sums.name_of(count)), [])
        return any(isinstance(self.model.tree.statement(node), ast.Assign) for node in stores)

    def _is_sum(self, total: str, addition: ast.AugAssign, loop: ast.For, scope: ast.AST) -> bool:
        """Whether only the addition, a 0 before the loop, and divisions change a name."""
        for node in self._stores_of.get((scope, total), []):
            statement = self.model.tree.statement(node)
            is_instead = names.are_alternatives(statement, loop, self.model.tree)
            if statement is addition or is_instead or batch_sums.divides(statement, total):
                continue
            if _is_inside(node, loop) or not isinstance(statement, ast.Assign) or not self._is_start(node, statement):
                return False
        return True

    def _is_start(self, target: ast.expr, statement: ast.Assign) -> bool:
        """Whether an assignment sets a name to 0: `a = 0`, `a, b = 0, 0`, `a = torch.zeros(1)`."""
        value = names.bound_value(target, self.model.tree) or statement.value
        if isinstance(value, ast.Constant):
            return type(value.value) in (int, float) and not value.value
        return isinstance(value, ast.Call) and python_ast.called_name(value) in ("zeros", "tensor", "float")

    def _samples(self, added: ast.expr, loop: ast.For) -> bool | None:
        """Whether the summands are mean losses of batches (False) or those times the batch size (True), or None."""
        if (right := self._matches(added, loop)) is not None:
            return right
        added = self._named(added, loop)
        factors = (
            [added.left, added.right] if isinstance(added, ast.BinOp) and isinstance(added.op, ast.Mult) else [added]
        )
        sizes = [item for item in factors if batch_sums.is_batch_size(item)]
        rest = [item for item in factors if item not in sizes]
        if len(rest) != 1:
            return None
        loss = batch_sums.tensor_of(rest[0])
        return bool(sizes) if self._is_mean_loss(loss, loop) else True if self._is_summed_loss(loss) else None

    def _matches(self, added: ast.expr, loop: ast.For) -> bool | None:
        """Whether summands count right predictions (True) or are accuracies (False), also through variables."""
        return batch_sums.matches(self._named(added, loop), lambda node: self._named(node, loop))

    def _named(self, added: ast.expr, loop: ast.For) -> ast.expr:
        """The value of a variable that the loop binds, or the expression itself."""
        value = names.only_value(added, self.model.definitions) if isinstance(added, ast.Name) else None
        return value if value is not None and _is_inside(value, loop) else added

    def _is_summed_loss(self, node: ast.expr) -> bool:
        """Whether an expression is a loss with `reduction="sum"`."""
        value = names.only_value(node, self.model.definitions) if isinstance(node, ast.Name) else node
        made = self.model.results.get(python_ast.site_of(value), []) if value is not None else []
        return bool(made) and all(losses.is_sum(item, self.model.tree) for item in made)

    def _is_mean_loss(self, node: ast.expr, loop: ast.For, names_before: frozenset[str] = frozenset()) -> bool:
        """Whether an expression is a mean loss of the batch: a call, a sum of such calls, or a name bound to them."""
        if isinstance(node, ast.BinOp):
            return self._is_sum_of_means(node, loop, names_before)
        if isinstance(node, ast.Call):
            made = self.model.results.get(python_ast.site_of(node), [])
            is_mean = bool(made) and all(losses.is_mean(value, self.model.tree) for value in made)
            return is_mean or self._is_own_mean(node)
        if not isinstance(node, ast.Name) or node.id in names_before:
            return False
        stores = self._stores_of.get((self.model.tree.scope_around(loop), node.id), [])
        statements = [self.model.tree.parent(item) for item in stores if _is_inside(item, loop)]
        changed = [item for item in python_ast.walk(loop) if batch_sums.changes(item, node.id)]
        return (
            bool(statements)
            and not changed
            and all(
                isinstance(item, ast.Assign)
                and isinstance(item.value, (ast.Call, ast.BinOp))
                and self._is_mean_loss(item.value, loop, names_before | {node.id})
                for item in statements
            )
        )

    def _is_own_mean(self, call: ast.Call) -> bool:
        """Whether a call reaches a function or loss class that ends in a mean, also of another file."""
        if isinstance(call.func, ast.Name):
            made = names.only_value(call.func, self.model.definitions)
        else:
            made = self.model.provenance.created(call.func) if isinstance(call.func, ast.Attribute) else None
        info = self.model.definitions.defined(python_ast.dotted(made.func)) if isinstance(made, ast.Call) else None
        known = self.model.definitions
        own = info.method("forward") if isinstance(info, definitions.ClassInfo) else callees.function(call.func, known)
        return own is not None and batch_sums.ends_in_mean(own, own.definitions)

    def _is_sum_of_means(self, node: ast.BinOp, loop: ast.For, names_before: frozenset[str]) -> bool:
        """Whether a mean loss is one of the terms of a sum.

        The other terms are means of the batch, mean losses, or penalties that do not depend on the batch.
        """
        terms = [batch_sums.without_weight(item) for item, _ in arithmetic.terms(node)]
        if node in terms:
            return False
        known = [item for item in terms if self._is_mean_loss(item, loop, names_before)]
        rest = [item for item in terms if item not in known]
        return bool(known) and all(
            arithmetic.reduced(item, "mean", self.model.definitions) is not None or self._is_of_weights(item, loop)
            for item in rest
        )

    def _is_of_weights(self, term: ast.expr, loop: ast.For) -> bool:
        """Whether a term of a loss reads nothing that the loop binds: a penalty on weights."""
        value = self._named(term, loop)
        inside, own = (set(map(batch_sums.bound_by, python_ast.walk(node))) for node in (loop, value))
        bound = inside - own
        return isinstance(value, ast.Call) and bound.isdisjoint(python_ast.names_in(value))

    def _is_scaled(self, division: ast.BinOp | ast.AugAssign) -> bool:
        """Whether the code directly multiplies or divides a quotient again."""
        around = self.model.tree.parent(division)
        return isinstance(around, ast.BinOp) and isinstance(around.op, (ast.Mult, ast.Div))

    def _loaders(self, loop: ast.For) -> list[values.Value]:
        """The loaders that a loop is known to iterate over."""
        site = python_ast.site_of(loop)
        over = [item.over for trace in self.model.program.traces for item in _loops(trace.items) if item.site == site]
        known = [values.resolved(item) for item in over if item is not None]
        return [item for item in known if utilities.is_utility(item)]

    def _draws_part(self, loop: ast.For) -> bool:
        """Whether all known loaders of a loop draw a part of their dataset.

        A sum over the part of one distributed process may later be added to those of the others.
        """
        loaders = self._loaders(loop)
        draws_part, draws_shard = self.model.datasets.draws_part, self.model.datasets.draws_shard
        if loaders and all(map(draws_shard, loaders)):
            return _GATHERS.search(self.model.tree.source.text) is None
        return bool(loaders) and all(map(draws_part, loaders))

    def _has_batches_of_one(self, loop: ast.For) -> bool:
        sizes = [loader.part("batch_size") for loader in self._loaders(loop) if loader.part("batch_sampler") is None]
        return any(size is None or (isinstance(size, values.Plain) and size.constant in (1, None)) for size in sizes)

    def _is_batched(self, loop: ast.For) -> bool:
        """Whether batches are known to hold more than one sample. `_has_batches_of_one` has checked known loaders."""
        return bool(self._loaders(loop)) or lengths.is_batched(loop.iter, self.model.definitions)

    def _is_whole(self, loop: ast.For) -> bool:
        """Whether a loop iterates over a loader and, as far as torchlint knows, covers all samples."""
        if any(isinstance(node, python_ast.LEAVING) for node in python_ast.walk(loop)):
            return False
        loaders = self._loaders(loop)
        parts = [loader.part(name) for loader in loaders for name in ("sampler", "batch_sampler", "drop_last")]
        return not any(parts) and bool(
            loaders or naming.LOADER.search(batch_sums.loader_of(loop, self.model.definitions))
        )

    # -- report ---------------------------------------------------------------------------------------

    def report_WrongCount(self, wrong: WrongCount) -> None:
        count, size = ("the number of batches", "large") if wrong.by_samples else ("the number of samples", "small")
        summed = "losses times the batch size" if wrong.by_samples else "mean losses of batches"
        if wrong.of_matches:
            summed = "correct predictions" if wrong.by_samples else "accuracies of batches"
        is_sure = wrong.is_batched
        right = f"len({wrong.loader}.dataset)" if wrong.by_samples else f"len({wrong.loader})"
        self.report(
            self._place(wrong.division),
            f"`{wrong.total}` sums {summed}, but is divided by {count}: "
            f"the result is too {size} by a factor of the batch size",
            related=[(wrong.addition, "they are added here")],
            help=f"divide by `{right}`",
            confidence=Confidence.HIGH if is_sure else Confidence.LOW,
            fix=self._fix(wrong, right),
        )

    def report_OtherData(self, other: OtherData) -> None:
        self.report(
            self._place(other.division),
            f"`{other.total}` is a sum over `{other.loader}`, but is divided by the length of `{other.counted}`",
            related=[(other.loop, "the loop is here")],
            help=f"divide by the length of `{other.loader}{'.sampler' if other.draws_part else ''}`",
        )

    def _place(self, site: python_ast.Site) -> python_ast.Site:
        """A site, or the site of its statement, because older Pythons do not locate nodes inside strings."""
        node = self.model.tree.node(site)
        in_string = any(isinstance(item, ast.JoinedStr) for item in self.model.tree.ancestors(node))
        return python_ast.site_of(self.model.tree.statement(node)) if in_string else site

    def _fix(self, wrong: WrongCount, right: str) -> edits.Change | None:
        if not wrong.fixable or self._place(wrong.division) != wrong.division:
            return None
        written = self.written(wrong.divisor)
        return edits.Change(f"divide by `{right}`", [edits.Replace(written, right)]) if written is not None else None


def _loops(items: list[events.Item]) -> Iterator[events.Loop]:
    return (item for item in events.items_in(items) if isinstance(item, events.Loop))


def _is_inside(node: ast.expr, loop: ast.For) -> bool:
    return loop.lineno <= node.lineno <= (loop.end_lineno or loop.lineno)


def _is_other_data(counted: str, loader: str) -> bool:
    """Whether a sum over validation or test data is divided by the length of training data."""
    return held_out.is_named_training(counted) and held_out.is_named_held_out(loader)
