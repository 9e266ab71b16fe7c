"""Datasets: loaders that share one, splits that are parts of it, and the order of its batches."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from torchlint.model.events import Loop
from torchlint.model.program import Program
from torchlint.model.relations._generators import held_by
from torchlint.model.relations._indexed import index_decides
from torchlint.model.relations.answer import Answer as Text
from torchlint.model.utilities import DataLoader
from torchlint.model.values import (
    Answer,
    Attribute,
    Element,
    External,
    Generator,
    Instance,
    Iteration,
    Plain,
    Unknown,
    Value,
    drawn_from,
    is_none,
    resolved,
)
from torchlint.pytorch import datasets
from torchlint.syntax.python_ast import Site, dotted, is_literal, site_of, walk

_DATASET = "dataset"
_MEASURING = frozenset({"len", "print"})


class Cycle(NamedTuple):
    """An iterator that stores all batches of the first epoch and repeats them."""

    site: Site
    loader: Value
    shuffles: Answer
    """Whether a new epoch of the loader would have another order."""
    wraps: Answer
    """Whether code draws from it without end; UNKNOWN if another loader or the caller ends the loop."""


class LeftOut(NamedTuple):
    """A loader takes a whole dataset, another one a part of it, and nothing uses the other part."""

    loader: Site
    other: Site
    split: Site
    whole: str
    used: str
    unused: str
    """The name of the unused part; empty if the program has no name for it."""


class Datasets:
    """Answers about loaders and their datasets."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._observed = program.observations

    def generators_of(self, dataset: Value) -> Iterator[tuple[Value, str, ast.Call]]:
        """The random generators that a dataset holds, each with its owner, its attribute and the call that makes it."""
        return held_by(dataset, self.attributes, self._program)

    @cached_property
    def attributes(self) -> dict[Value, dict[str, Value]]:
        """The attributes of objects at the program's end: the contents of datasets and their transforms."""
        found: dict[Value, dict[str, Value]] = {}
        for trace in self._program.traces:
            for (owner, name), value in trace.heap.items():
                found.setdefault(owner, {})[name] = resolved(value)
        return found

    # -- parts of datasets ------------------------------------------------------------------------------

    def whole(self, value: Value) -> Value:
        """The whole dataset behind a value, or the value itself: for a subset, a loader, `subset.dataset`."""
        for _ in range(8):  # subsets of subsets
            value = resolved(value)
            inner = self._owner_of_attribute(value)
            if inner is not None:
                value = inner
            elif (part := self._parent(value)) is not None:
                value = part
            else:
                break
        return value

    def is_part(self, value: Value) -> bool:
        """Whether a value is a subset from a split or `Subset`."""
        return self._parent(resolved(value)) is not None

    def _parent(self, value: Value) -> Value | None:
        """The dataset of a subset."""
        made = resolved(value.parents[0]) if isinstance(value, Element) and value.parents else value
        name = self._observed.data.get(made, "")
        is_subset = name in datasets.SUBSETS if made is value else name in datasets.SPLITS
        return resolved(made.parents[0]) if is_subset and made.parents else None

    def _owner_of_attribute(self, value: Value) -> Value | None:
        """The dataset that `subset.dataset` or `loader.dataset` stands for."""
        if not isinstance(value, Attribute) or not value.parents:
            return None
        owner = resolved(value.parents[0])
        if owner.key_of(value) not in (_DATASET, None):
            return None
        if isinstance(owner, DataLoader):
            return owner.part(_DATASET)
        return self._parent(owner)

    def overwritten(self) -> Iterator[tuple[Site, Site]]:
        """The places that set an attribute of a dataset, and set it again through a part of the dataset.

        These are the targets of the assignments; for an argument of the dataset's class, the call.
        """
        settings: dict[tuple[Value, str], list[tuple[Site, Value | None]]] = {}
        for site, owner in self._observed.attribute_owners.items():
            node = self._program.tree.own_node(site)
            if isinstance(node, ast.Attribute):
                settings.setdefault((self.whole(owner), node.attr), []).append((site, self._through(owner)))
        for (whole, name), found in settings.items():
            if all(part is None for _, part in found):
                continue
            made = self._program.tree.own_node(whole.site)
            if len(found) == 1 and isinstance(made, ast.Call) and any(item.arg == name for item in made.keywords):
                assert whole.site is not None
                found.insert(0, (whole.site, None))
            for (site, part), (later, other) in pairwise(found):
                if other is not None and other is not part:
                    yield site, later

    def _through(self, owner: Value) -> Value | None:
        """The subset whose attribute `dataset` a value is."""
        owner = resolved(owner)
        return resolved(owner.parents[0]) if self._owner_of_attribute(owner) is not None else None

    def left_out(self) -> Iterator[LeftOut]:
        """The loaders that shuffle a whole dataset, while another loader takes a part and nothing takes the rest."""
        loaders = self._loaders_by_dataset
        for split, name in self._observed.data.items():
            if name not in datasets.SPLITS or not split.parents or split.site is None:
                continue
            whole = resolved(split.parents[0])
            parts = [item for item in split.known_parts.values() if isinstance(item, Element)]
            used = [item for item in parts if item in loaders]
            unused = [item for item in parts if item not in loaders]
            whole_loaders = [item for item in loaders.get(whole, []) if self._shuffles_all(item)]
            if len(used) != 1 or len(unused) > 1 or not whole_loaders or any(map(self._is_used, unused)):
                continue
            loader, other = whole_loaders[0].site, loaders[used[0]][0].site
            if loader is not None and other is not None:
                names = [_name(item) for item in (whole, used[0], *unused)]
                yield LeftOut(loader, other, split.site, names[0], names[1], names[2] if unused else "")

    def left_out_of_classes(self) -> Iterator[LeftOut]:
        """The same for classes that split a dataset in one method and create the loaders in others."""
        named = self._program.definitions.named
        for info in self._program.definitions.classes.values():
            nodes = list(walk(info.node))
            loaders = [
                node for node in nodes
                if isinstance(node, ast.Call) and named(node.func) in datasets.LOADERS and not _has_sampler(node)
            ]  # fmt: skip
            for split in nodes if loaders else ():
                made = split.value if isinstance(split, ast.Assign) else None
                if isinstance(split, ast.Assign) and isinstance(made, ast.Call) and named(made.func) in datasets.SPLITS:
                    yield from self._left_out_of(split, made, loaders, nodes)

    def _left_out_of(
        self, split: ast.Assign, made: ast.Call, loaders: list[ast.Call], nodes: list[ast.AST]
    ) -> Iterator[LeftOut]:
        whole = dotted(made.args[0]) if made.args else ""
        target = split.targets[0]
        parts = [dotted(item) for item in target.elts] if isinstance(target, ast.Tuple) else []
        if "." not in whole or len(parts) != 2 or not all(part.startswith("self.") for part in (*parts, whole)):
            return
        taken: dict[str, ast.Call] = {}
        for loader in loaders:
            given = [item.value for item in loader.keywords if item.arg == _DATASET] + loader.args[:1]
            taken.setdefault(dotted(given[0]) if given else "", loader)
        used = [part for part in parts if part in taken]
        if whole not in taken or len(used) != 1 or not _shuffles(taken[whole]):
            return
        (unused,) = set(parts) - set(used)
        reads = [node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)]
        parents = [self._program.tree.parent(node) for node in reads if dotted(node) == unused]
        stores = [node for node in nodes if isinstance(node, ast.Attribute) and dotted(node) == whole]
        is_kept = sum(isinstance(node.ctx, ast.Store) for node in stores) <= 1
        if is_kept and all(isinstance(node, ast.Call) and dotted(node.func) in _MEASURING for node in parents):
            sites = [site_of(node) for node in (taken[whole], taken[used[0]], made)]
            yield LeftOut(sites[0], sites[1], sites[2], whole, used[0], unused)

    @cached_property
    def _loaders_by_dataset(self) -> dict[Value, list[DataLoader]]:
        found: dict[Value, list[DataLoader]] = {}
        for loader in self._observed.loaders:
            given = loader.part(_DATASET)
            if given is not None:
                found.setdefault(resolved(given), []).append(loader)
        return found

    def _shuffles_all(self, loader: DataLoader) -> bool:
        given = [loader.part(name) for name in ("sampler", "batch_sampler")]
        return self.shuffles(loader) is Answer.YES and all(item is None or is_none(item) for item in given)

    def _is_used(self, part: Value) -> bool:
        """Whether a part of a split may be used for more than its length, or deliberately has no name."""
        name, tree = _name(part), self._program.tree
        if not name.strip("_"):
            return True
        made = tree.own_node(part.site)
        scope = tree.function_around(made) if made is not None else None
        for node in tree.of_type(ast.Name, ast.Attribute):
            if isinstance(node.ctx, ast.Load) and dotted(node).rpartition(".")[2] == name:
                if isinstance(node, ast.Name) and scope not in (None, *tree.ancestors(node)):
                    continue
                around = tree.parent(node)
                if not isinstance(around, ast.Call) or dotted(around.func) not in _MEASURING:
                    return True
        return False

    def draws_part(self, value: Value) -> bool:
        """Whether a loader draws some samples of its dataset by their indices, and another loader draws others."""
        loader = resolved(value)
        given = loader.part(_DATASET) if isinstance(loader, DataLoader) else None
        own = self._drawn_indices(loader)
        if given is None or own is None:
            return False
        others = map(self._drawn_indices, self._loaders_by_dataset.get(resolved(given), []))
        return any(item is not None and _are_different(item, own) for item in others)

    def is_one_batch(self, value: Value) -> bool:
        """Whether a loader gives its whole dataset as one batch, because the batch size is a `len`."""
        size = resolved(value).part("batch_size")
        return size is not None and self._program.observations.numbers.get(resolved(size), ("",))[0] == "len"

    def draws_shard(self, value: Value) -> bool:
        """Whether a loader draws the part of one distributed process, by a `DistributedSampler`."""
        loader = resolved(value)
        sampler = loader.part("sampler") if isinstance(loader, DataLoader) else None
        sampler = resolved(sampler) if sampler is not None else None
        callee = sampler.callee if isinstance(sampler, Unknown) else None
        return isinstance(callee, External) and callee.label == "DistributedSampler"

    def _drawn_indices(self, loader: Value) -> tuple[Value, str] | None:
        """The indices from which a `SubsetRandomSampler` of a loader draws, with their code."""
        sampler = loader.part("sampler") if isinstance(loader, DataLoader) else None
        sampler = resolved(sampler) if sampler is not None else None
        callee = sampler.callee if isinstance(sampler, Unknown) else None
        made = self._program.tree.node(sampler.site) if sampler is not None else None
        if not isinstance(callee, External) or callee.label not in datasets.SUBSET_SAMPLERS:
            return None
        if sampler is None or not sampler.parents or not isinstance(made, ast.Call):
            return None
        return resolved(sampler.parents[0]), ast.unparse([*made.args, *(item.value for item in made.keywords)][0])

    # -- order of batches -------------------------------------------------------------------------------

    def shuffles(self, value: Value) -> Answer:
        """Whether a loader's order of batches differs from epoch to epoch."""
        loader = resolved(value)
        if not isinstance(loader, DataLoader):
            return Answer.UNKNOWN
        given = [loader.part(name) for name in ("sampler", "batch_sampler")]
        for sampler in (resolved(item) for item in given if item is not None and not is_none(resolved(item))):
            callee = sampler.callee if isinstance(sampler, Unknown) else None
            if not isinstance(callee, External) or callee.label not in datasets.SHUFFLING_SAMPLERS:
                return Answer.UNKNOWN
            return Answer.YES
        shuffle = loader.part("shuffle")
        if shuffle is None:
            return Answer.NO
        shuffle = resolved(shuffle)
        if not isinstance(shuffle, Plain) or not shuffle.is_literal:
            return Answer.UNKNOWN
        return Answer.YES if shuffle.constant else Answer.NO

    def is_indexed(self, value: Value) -> Answer:
        """Whether the index decides which sample of a dataset a loader gets; NO if the dataset decides itself."""
        whole = self.whole(value)
        if isinstance(whole, Instance):
            return index_decides(whole.info)
        callee = whole.callee if isinstance(whole, Unknown) else None
        is_known = isinstance(callee, External) and callee.label in datasets.INDEXED
        return Answer.YES if is_known or self.is_part(value) else Answer.UNKNOWN

    @cached_property
    def cycles(self) -> list[Cycle]:
        """The iterators that repeat the batches of a loader."""
        found = []
        for value, name in self._observed.data.items():
            if name in datasets.CYCLES and value.parents and value.site is not None:
                loader = resolved(value.parents[0])
                if not self._gives_loaders(value):
                    found.append(Cycle(value.site, loader, self.shuffles(loader), self._wraps(value)))
        return found

    def _gives_loaders(self, cycle: Value) -> bool:
        """Whether a loop iterates over the drawn item: `for batch in next(loaders)`."""
        overs = (resolved(loop.over) for loop in self._loops if not loop.implicit and loop.over is not None)
        return any(isinstance(over, Iteration) and cycle in over.parents for over in overs)

    @cached_property
    def _loops(self) -> set[Loop]:
        return {loop for trace in self._program.traces for event in trace.events for loop in event.loops}

    def _wraps(self, cycle: Value) -> Answer:
        """Whether code draws more than one epoch from an endless iterator, as far as the loops show."""
        drawn = self._observed.draws.get(cycle, [])
        if cycle.loops or not drawn:
            return Answer.UNKNOWN
        return Answer.any_of(self._is_endless(cycle, loops) for loops in drawn)

    def _is_endless(self, cycle: Value, loops: tuple[Loop, ...]) -> Answer:
        around = [loop for loop in loops if not loop.implicit]
        if not around or around[-1].over is None:
            return Answer.YES
        over = list(drawn_from(around[-1].over))
        own = [item for item in over if item is cycle or cycle in item.parents]
        if own:
            is_alone = all(item in own or isinstance(item, (Generator, Plain)) for item in over)
            return Answer.YES if is_alone else Answer.UNKNOWN
        is_known = all(isinstance(item, Plain) and not self._is_length_of(item, cycle, len(around)) for item in over)
        return Answer.YES if is_known else Answer.UNKNOWN

    def _is_length_of(self, number: Value, cycle: Value, loops: int) -> bool:
        """Whether a number comes from the length of data, which may end the loop within an epoch of a cycle.

        Several loops over the whole length of its own loader draw several epochs.
        """
        how, operands, _ = self._observed.numbers.get(resolved(number), ("", (), None))
        if how == "len":
            return loops < 2 or resolved(operands[0]) is not resolved(cycle.parents[0])
        return any(self._is_length_of(item, cycle, loops) for item in operands)

    # -- in words ---------------------------------------------------------------------------------------

    def answers(self) -> Iterator[Text]:
        """The parts of each split, and the iterators that repeat batches."""
        for cycle in self.cycles:
            order = {Answer.YES: "shuffles", Answer.NO: "does not shuffle", Answer.UNKNOWN: "perhaps shuffles"}
            yield Text(cycle.site, f"repeats the batches of a loader that {order[cycle.shuffles]}")
        for loader in self._observed.loaders:
            given = loader.part(_DATASET)
            if given is not None and loader.site is not None and self.is_part(given):
                whole = self.whole(given)
                label = f"`{whole.label}`" if whole.label else "a dataset"
                yield Text(loader.site, f"batches of a part of {label}")
            if loader.site is not None and self.draws_part(loader):
                yield Text(loader.site, "its sampler draws a part of the dataset")


def _name(value: Value) -> str:
    """The program's name for a value; empty for an element without one."""
    return "" if value.label.startswith("[") else value.label


def _are_different(some: tuple[Value, str], others: tuple[Value, str]) -> bool:
    """Whether two lists of indices are different. All slices of a list have the same value if it is not known."""
    return some[1] != others[1] and (some[0] is not others[0] or isinstance(some[0], (Element, Plain)))


def _has_sampler(loader: ast.Call) -> bool:
    return any(item.arg in ("sampler", "batch_sampler", None) for item in loader.keywords)


def _shuffles(loader: ast.Call) -> bool:
    return any(item.arg == "shuffle" and is_literal(item.value, True) for item in loader.keywords)
