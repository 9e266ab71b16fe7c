"""Distributed samplers that shuffle the same way in each epoch."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule, edits
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import definitions, events, lineage, utilities, values
from torchlint.model.queries import batch_sums
from torchlint.pytorch import binding
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.index import FileIndex
    from torchlint.syntax.python_ast import Site

_SAMPLER = LazyPattern(r"torch\.utils\.data\.(distributed\.)?DistributedSampler$")
_PARAMETERS = binding.Parameters(*"dataset num_replicas rank shuffle seed drop_last".split())
_EVALUATION = LazyPattern(r"val|test|eval|dev(_|$)", re.IGNORECASE)
_BACKWARD = "backward"
_SETTING = (
    b"set_epoch", b".epoch =", b"accelerat", b"lightning", b"ignite", b"composer", b"fastai", b"catalyst", b"deepspeed",
    b"transformers", b"import ray", b"horovod",
)  # fmt: skip
"""Words in programs, and names of packages, that set the sampler's epoch or may set it."""
_PLAIN = ("object", "builtins.object", "abc.ABC")
_FRAMEWORKS = LazyPattern(
    r"(accelerate|lightning\w*|pytorch_lightning|ignite|composer|fastai|catalyst|ray|deepspeed)(\.|$)"
)
"""Packages that call `set_epoch` or may call it."""


class SameOrder(NamedTuple):
    """The sampler made at `sampler` belongs to a loader that `epochs` iterates over repeatedly."""

    sampler: Site
    epochs: Site


class SameOrderElsewhere(NamedTuple):
    """A function returns the loader of the sampler made at `sampler` to files whose epochs iterate over it."""

    sampler: Site
    is_endless: bool
    """Whether a generator restarts the loader repeatedly."""


class MissingSetEpoch(Rule):
    """A distributed sampler never gets the epoch: all epochs have the same order.

    ## What it does
    Finds a shuffling `DistributedSampler` whose loader is used in more than one epoch. The file never calls
    `set_epoch`, and never passes the sampler or the loader to a function that could call it. Also finds a sampler whose
    loader a function returns to another file. Such a sampler is reported only if a generator in either file restarts
    the loader endlessly, and no file in the repository sets the epoch.

    ## Why is this bad?
    The sampler computes its order from the seed and the epoch. Without `set_epoch`, the epoch stays 0. Each epoch then
    has the same batches in the same order, and each process always sees the same part of the data. The model
    generalizes worse than one trained on one GPU.

    ## Example
    ```python
    from torch.utils.data import DataLoader, DistributedSampler

    def train(dataset, step, epochs):
        sampler = DistributedSampler(dataset)
        loader = DataLoader(dataset, batch_size=32, sampler=sampler)
        for epoch in range(epochs):
            for batch in loader:
                print(batch)
    ```

    Use instead:
    ```python
    from torch.utils.data import DataLoader, DistributedSampler

    def train(dataset, step, epochs):
        sampler = DistributedSampler(dataset)
        loader = DataLoader(dataset, batch_size=32, sampler=sampler)
        for epoch in range(epochs):
            sampler.set_epoch(epoch)
            for batch in loader:
                print(batch)
    ```

    ## Fix safety
    The fix calls `set_epoch`. It is unsafe because it changes the order of the batches. There is no fix if the loop has
    no variable for the epoch number.

    ## What verify shows
    `torchlint verify` compares the first samples of the epochs. It confirms the finding if two epochs in a row start
    with the same samples in the same order. It refutes the finding if each epoch has a different order.

    ## References
    - [torch.utils.data.distributed.DistributedSampler](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler):
      "Otherwise, the same ordering will be always used"
    """

    code = "TL606"
    category = Category.SUSPICIOUS
    triggers = ((b"DistributedSampler",), (b"DataLoader",))
    calls = frozenset({"DataLoader", "DistributedSampler"})

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        """Whether a file contains a sampler whose epoch nothing sets."""
        return b"set_epoch" not in index.code

    def ask(self) -> Iterator[SameOrder | SameOrderElsewhere]:
        imported = self.model.definitions.scopes.anywhere().values()
        if "set_epoch" in self.model.tree.source.text or any(_FRAMEWORKS.match(name) for name in imported):
            return
        observed = self.model.program.observations
        for loader in observed.loaders:
            sampler = next((item for item in self._samplers(loader) if self._shuffles(item)), None)
            epochs = [
                loop
                for iterated, passes in observed.passes.items()
                if loader in values.inputs_of(iterated)
                for loop in itertools.chain.from_iterable(passes)
                if loop not in loader.loops and not loop.implicit
            ]
            if sampler is None or sampler.site is None or not epochs or self._evaluates(loader, sampler):
                continue
            if self._is_told_otherwise(sampler) or not self._comes_again(epochs[0]):
                continue
            if not sampler.has_use("set_epoch") and self._leaving.isdisjoint({loader, sampler}):
                yield SameOrder(sampler.site, epochs[0].site)
        if not self.model.mentions(_SETTING):
            yield from self._made_for_others()

    def _made_for_others(self) -> Iterator[SameOrderElsewhere]:
        """The samplers of loaders that a function returns to files that iterate over them repeatedly."""
        for trace in self.model.program.traces:
            name = trace.root.name if trace.root is not None else ""
            for loader in lineage.contents(list(trace.frame.returns)) if name and not _EVALUATION.search(name) else ():
                if not isinstance(loader, utilities.DataLoader):
                    continue
                sampler = next((item for item in self._samplers(loader) if self._shuffles(item)), None)
                if sampler is None or sampler.site is None or self._evaluates(loader, sampler):
                    continue
                if self.model.tree.own_node(sampler.site) is None or self._is_told_otherwise(sampler):
                    continue
                for user in self.model.importers(name, (name.encode() + b"(",)):
                    is_endless = any(_is_called(restart, user) for restart in _restarts(self.model.definitions, user))
                    if is_endless or _has_epochs(user):
                        yield SameOrderElsewhere(sampler.site, is_endless)
                        return

    def _is_told_otherwise(self, sampler: values.Unknown) -> bool:
        """Whether the program sets the epoch or the seed directly: `sampler.epoch = epoch`."""
        nodes = (node for node in self.model.tree.of_type(ast.Attribute) if isinstance(node.ctx, ast.Store))
        return any(node.attr in ("epoch", "seed") and sampler.label in python_ast.dotted(node.value) for node in nodes)

    def _comes_again(self, epochs: events.Loop) -> bool:
        """Whether a loop iterates over epochs. Excludes `range(1)` and loops that only evaluate."""
        node = self.model.tree.node(epochs.site)
        over = node.iter if isinstance(node, (ast.For, ast.AsyncFor)) else None
        given = over.args if isinstance(over, ast.Call) and python_ast.called_name(over) == "range" else []
        if len(given) == 1 and isinstance(given[0], ast.Constant) and given[0].value == 1:
            return False
        kinds = events.Backward, events.Step, events.ModeSwitch
        inside = [
            item for trace in self.model.program.traces for item in trace.of_kinds(*kinds) if epochs in item.loops
        ]
        switches = [item for item in inside if isinstance(item, events.ModeSwitch)]
        return len(switches) < len(inside) or all(item.training is not False for item in switches)

    def _evaluates(self, loader: utilities.DataLoader, sampler: values.Unknown) -> bool:
        """Whether names show that the data are not for training. Their order does not matter then."""
        dataset = loader.part("dataset")
        names = [value.label for value in (loader, sampler, dataset, *sampler.parents) if value is not None]
        return any(_EVALUATION.search(name) for name in names)

    def _samplers(self, loader: utilities.DataLoader) -> Iterator[values.Unknown]:
        """The distributed samplers that a loader may have, including one inside a batch sampler."""
        for given in (loader.part("sampler"), loader.part("batch_sampler")):
            for value in values.inputs_of(given) if given is not None else ():
                held = value.parents if isinstance(value, values.Unknown) else ()
                for item in (value, *(item for part in held for item in values.inputs_of(part))):
                    if isinstance(item, values.Unknown) and _may_be_distributed(item):
                        yield item

    def _shuffles(self, sampler: values.Unknown) -> bool:
        """Whether a sampler surely shuffles, as it does by default."""
        call = self.model.tree.node(sampler.site)
        if not isinstance(call, ast.Call) or any(isinstance(item, ast.Starred) for item in call.args):
            return False
        keywords = {item.arg: item.value for item in call.keywords if item.arg is not None}
        if len(keywords) < len(call.keywords):
            return False
        shuffle = binding.bind(_PARAMETERS, call.args, keywords).get("shuffle")
        return shuffle is None or python_ast.is_literal(shuffle, True)

    @cached_property
    def _leaving(self) -> set[values.Value]:
        """Values that the file passes to unknown code, or stores or returns for such code."""
        found = list(self.model.program.observations.stored.values())
        kept: list[tuple[values.Value, values.Value]] = []
        for trace in self.model.program.traces:
            found += [item for event in trace.of(events.Call) for item in event.value.parents]
            found += [event.value for event in trace.of(events.Returned) if not event.calls]
            found += [event.value for event in trace.of(events.Keep)]
            kept += [(owner, value) for (owner, _), value in trace.heap.items()]
        found += [value for owner, value in kept if not _is_of_this_file(owner)]
        leaving = lineage.contents(found)
        while more := {value for owner, value in kept if owner in leaving} - leaving:
            leaving = lineage.contents([*leaving, *more])
        return leaving

    # -- report ---------------------------------------------------------------------------------------

    def report_SameOrder(self, answer: SameOrder) -> None:
        self.report(
            answer.sampler,
            "nothing calls `set_epoch` on the sampler: every epoch has the same batches in the same order",
            related=[(answer.epochs, "the epochs are here")],
            help="call `set_epoch(epoch)` at the beginning of each epoch",
            confidence=Confidence.MEDIUM,
            fix=self._fix(answer),
        )

    def report_SameOrderElsewhere(self, answer: SameOrderElsewhere) -> None:
        self.report(
            answer.sampler,
            "no file of the repository calls `set_epoch`: each epoch has the same batches in the same order",
            help="call `set_epoch(epoch)` each time the loader restarts",
            confidence=Confidence.MEDIUM if answer.is_endless else Confidence.LOW,
        )

    def _fix(self, answer: SameOrder) -> edits.Change | None:
        """The call as the first statement of the epoch, where one function names both the sampler and the epoch."""
        if answer.sampler.inner is not None or answer.epochs.inner is not None:
            return None
        tree, known = self.model.tree, self.model.definitions
        call, loop = tree.node(answer.sampler), tree.node(answer.epochs)
        statement = tree.parent(call)
        if not isinstance(statement, ast.Assign) or not isinstance(loop, ast.For):
            return None
        name, epoch = statement.targets[0], loop.target
        if not isinstance(name, ast.Name) or not isinstance(epoch, ast.Name) or not batch_sums.counts(loop.iter):
            return None
        function = known.function_around(call)
        scope = function.node if function is not None else tree.module
        stores = [node for node in python_ast.walk(scope) if isinstance(node, ast.Name) and node.id == name.id]
        is_only = sum(isinstance(node.ctx, ast.Store) for node in stores) == 1
        first = self.written(python_ast.site_of(loop.body[0]))
        if known.function_around(loop) is not function or not is_only or first is None:
            return None
        if not isinstance(tree.parent(statement), (ast.Module, *python_ast.FUNCTIONS)):
            return None
        return edits.Change(
            "set the epoch of the sampler", [edits.InsertBefore(first, f"{name.id}.set_epoch({epoch.id})")]
        )


def _may_be_distributed(sampler: values.Unknown) -> bool:
    """Whether the class of a sampler, or one of several that the program chooses from, is `DistributedSampler`."""
    callees = values.inputs_of(sampler.callee) if sampler.callee is not None else ()
    return any(isinstance(item, values.External) and bool(_SAMPLER.match(item.name)) for item in callees)


def _restarts(*files: definitions.Definitions) -> Iterator[definitions.FunctionInfo]:
    """The generators that iterate over a parameter without end: `while True: yield from loader`."""
    for info in (info for file in files for info in file.functions.values() if info.is_generator):
        endless = [node for node in python_ast.walk(info.node) if isinstance(node, ast.While) and _is_true(node.test)]
        for node in (item for loop in endless for item in python_ast.walk(loop)):
            over = node.iter if isinstance(node, ast.For) else node.value if isinstance(node, ast.YieldFrom) else None
            if isinstance(node, ast.Call) and python_ast.called_name(node) == "iter" and node.args:
                over = node.args[0]
            if isinstance(over, ast.Name) and over.id in info.parameters:
                yield info
                break


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and bool(node.value)


def _is_called(function: definitions.FunctionInfo, file: definitions.Definitions) -> bool:
    """Whether a file calls a function of this name."""
    calls: Iterator[ast.Call] = file.tree.of_type(ast.Call)
    return any(python_ast.called_name(call) == function.name for call in calls)


def _has_epochs(file: definitions.Definitions) -> bool:
    """Whether a file has a loop over epochs that contains a loop and a backward pass."""
    for loop in file.tree.of_type(ast.For):
        if "epoch" in ast.unparse(loop.target) and any(isinstance(item, ast.For) for item in loop.body):
            if any(isinstance(item, ast.Attribute) and item.attr == _BACKWARD for item in python_ast.walk(loop)):
                return True
    return False


def _is_of_this_file(owner: values.Value) -> bool:
    """Whether all behavior of an object is known, because the file makes it and its class has no unknown base."""
    if not isinstance(owner, values.Instance):
        return False
    return all(isinstance(item, definitions.ClassInfo) or item in _PLAIN for item in owner.info.ancestors())
