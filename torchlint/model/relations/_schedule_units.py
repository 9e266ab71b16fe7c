"""Schedules and their steps: whether the length of a schedule counts its steps."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from torchlint.model.events import Loop, ScheduleStep
from torchlint.model.program import Program, Trace
from torchlint.model.relations._horizons import EPOCHS, Horizon, Horizons, Unit
from torchlint.model.relations._intervals import configured
from torchlint.model.relations._paces import Cadence, Pace, Paces
from torchlint.model.values import Container, Value, inputs_of, resolved
from torchlint.syntax.python_ast import Site, called_name, names_bound, site_of, walk

_BY_NUMBERS = frozenset({"step_size", "milestones", "T_max"})
"""Lengths compared with the number of epochs if both are literals."""
_FALLING = ("get_linear_schedule_with_warmup", "get_polynomial_decay", "get_cosine_schedule_with_w", "PolynomialLR")
"""Schedules whose rate falls to 0 at their end."""
_SHARE = 4
"""A length of at least this share of the epochs counts epochs."""


class Mismatch(NamedTuple):
    """A schedule steps at `site` at a pace that its length does not count."""

    site: Site
    made: Site
    pace: Pace
    unit: Unit | None
    """The unit of the length; None if it is not known, and the schedule steps more often than its optimizer."""
    written: str
    """The length as written."""
    is_sure: bool = True
    is_configured: bool = False
    """Whether Lightning steps the schedule."""
    is_of_one_epoch: bool = False
    """Whether the length is that of one epoch, while the schedule steps in several."""


class ScheduleUnits:
    """Answers about the lengths of schedules."""

    def __init__(self, program: Program, horizons: Horizons, paces: Paces) -> None:
        self._program = program
        self._horizons = horizons
        self._paces = paces

    def mismatches(self, trace: Trace) -> Iterator[Mismatch]:
        """The schedules of a trace whose length counts something other than their steps."""
        schedules: dict[Value, list[ScheduleStep]] = defaultdict(list)
        for step in trace.of(ScheduleStep):
            schedules[resolved(step.scheduler)].append(step)
        for scheduler, steps in schedules.items():
            optimizer = optimizer_of(steps[0])
            if optimizer is None or any(step.by for step in steps):
                continue
            found = [self._paces.of(trace, step, optimizer) for step in steps]
            horizon = self.horizon(steps[0], found[0])
            is_sure = self._is_wrong(found[0], horizon) if horizon is not None else None
            if horizon is not None and is_sure is None and self._ends_early(scheduler, found[0], horizon):
                written, made = ast.unparse(horizon.written), scheduler.site or steps[0].site
                yield Mismatch(steps[0].site, made, found[0].pace, horizon.unit, written, is_of_one_epoch=True)
            elif horizon is not None and is_sure is not None and len({item.pace for item in found}) == 1:
                unit = horizon.unit or (Unit.EPOCHS if is_sure else None)
                written, made = ast.unparse(horizon.written), scheduler.site or steps[0].site
                yield Mismatch(steps[0].site, made, found[0].pace, unit, written, is_sure)

    def configured_mismatches(self) -> Iterator[Mismatch]:
        """The schedules from `configure_optimizers` whose interval does not match the unit of their length."""
        for info in self._program.definitions.classes.values():
            for call, interval in configured(info):
                _, written = self._horizons.length(call)
                unit = self._horizons.unit(call)
                is_wrong = (
                    unit in (Unit.EPOCHS, Unit.SAMPLES)
                    if interval == "step"
                    else unit in (Unit.BATCHES, Unit.UPDATES, Unit.SAMPLES)
                )
                if written is not None and is_wrong:
                    pace = Pace.EPOCH if interval == "epoch" else Pace.UPDATE
                    site = site_of(call)
                    yield Mismatch(site, site, pace, unit, ast.unparse(written), is_configured=True)

    def horizon(self, schedule: ScheduleStep, cadence: Cadence) -> Horizon | None:
        """The length of a schedule, in the program's unit; None if it has none, or it is not known."""
        scheduler = resolved(schedule.scheduler)
        return self._horizons.of(scheduler, cadence.loops, cadence.every) if scheduler.site is not None else None

    def _is_wrong(self, found: Cadence, horizon: Horizon) -> bool | None:
        """Whether a length surely, or perhaps, counts something else; None if it does not, or that is not known."""
        pace, unit = found.pace, horizon.unit
        if pace in (Pace.UNKNOWN, Pace.PROGRAM) or not self._is_over_data(found.loops[-1]):
            return None
        if pace is Pace.EPOCH:
            return True if unit in (Unit.BATCHES, Unit.UPDATES, Unit.SAMPLES) else None
        if self._counts_epochs(found.loops[-1]):
            return None  # the program calls a batch an epoch
        if unit is Unit.SAMPLES:
            return True if self._has_batches(found.loops[-1], horizon) else None
        if unit is Unit.EPOCHS or (unit is None and self._fits_epochs(found, horizon)):
            return True
        if b".prepare(" in self._program.tree.source.code:
            return None  # accelerate steps a schedule when the optimizer steps, and only then
        if pace is Pace.MICRO_BATCH and unit is not Unit.BATCHES:
            return unit is Unit.UPDATES
        return isinstance(found.every, ast.Constant) if pace is Pace.UPDATE and unit is Unit.BATCHES else None

    def _ends_early(self, scheduler: Value, found: Cadence, horizon: Horizon) -> bool:
        """Whether a schedule that falls to 0 has the length of one epoch, and steps with each batch of several."""
        made = self._program.tree.node(scheduler.site)
        name = called_name(made).rpartition(".")[2] if isinstance(made, ast.Call) else ""
        if not horizon.is_of_one_epoch or found.pace not in (Pace.UPDATE, Pace.BATCH) or not name.startswith(_FALLING):
            return False
        tree = self._program.tree
        outer = [(self._horizons.count(loop), tree.node(loop.site)) for loop in found.loops[:-1]]
        return made is not None and any(
            count is not None
            and node is not None
            and 1 not in self._horizons.numbers(count)
            and tree.function_around(node) is tree.function_around(made)
            and node not in tree.ancestors(made)
            for count, node in outer
        )

    def _fits_epochs(self, found: Cadence, horizon: Horizon) -> bool:
        """Whether a literal length is a good part of the literal number of epochs."""
        counts = [self._horizons.count(loop) for loop in found.loops[:-1]]
        epochs = [number for item in counts if item is not None for number in self._horizons.numbers(item)]
        if not epochs or not horizon.numbers or horizon.argument not in _BY_NUMBERS:
            return False
        return _SHARE < max(horizon.numbers) <= epochs[-1] <= _SHARE * max(horizon.numbers)

    def _has_batches(self, loop: Loop, horizon: Horizon) -> bool:
        """Whether the file sets a batch size, and a loop does not iterate over the dataset itself."""
        node = self._program.tree.node(loop.site)
        iterated = (
            {ast.unparse(item) for item in walk(node.iter)} if isinstance(node, (ast.For, ast.AsyncFor)) else set()
        )
        counted = {
            ast.unparse(item) for call in walk(horizon.written) if isinstance(call, ast.Call) for item in call.args
        }
        return b"batch_size" in self._program.tree.source.code and counted.isdisjoint(iterated)

    def _counts_epochs(self, loop: Loop) -> bool:
        """Whether a loop counts epochs by the names of its variables: `for i, epoch in enumerate(bar)`."""
        node = self._program.tree.node(loop.site)
        bound = names_bound(node.target) if isinstance(node, (ast.For, ast.AsyncFor)) else set()
        return any(EPOCHS.search(name) for name in bound)

    def _is_over_data(self, loop: Loop) -> bool:
        """Whether a loop iterates over batches, or over something that is no literal."""
        node = self._program.tree.node(loop.site)
        iterable = node.iter if isinstance(node, (ast.For, ast.AsyncFor)) else None
        return iterable is not None and not isinstance(iterable, (ast.List, ast.Tuple, ast.Constant))


def optimizer_of(schedule: ScheduleStep) -> Value | None:
    """The single optimizer whose learning rates a scheduler sets, for any scheduler."""
    found = {_optimizer_of_one(item) for item in inputs_of(schedule.scheduler)}
    return found.pop() if len(found) == 1 else None


def _optimizer_of_one(scheduler: Value) -> Value | None:
    """The optimizer of a scheduler, or of the first scheduler that it chains."""
    optimizer = scheduler.part("optimizer")
    if optimizer is not None:
        return resolved(optimizer)
    chained = [item for value in scheduler.parents if isinstance(value, Container) for item in value.elements()]
    return _optimizer_of_one(resolved(chained[0])) if chained else None
