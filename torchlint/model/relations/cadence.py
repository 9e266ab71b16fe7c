"""Cadence: the frequency of events compared with optimizer steps, and the unit that a schedule counts."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.model.events import Event, Loop, ScheduleStep
from torchlint.model.program import Program, Trace
from torchlint.model.relations._by_hand import idle_schedule
from torchlint.model.relations._horizons import Horizons, Unit
from torchlint.model.relations._iterations import Iteration, called_name, generates, reads_memory
from torchlint.model.relations._paces import Cadence, Pace, Paces
from torchlint.model.relations._schedule_units import Mismatch, ScheduleUnits, optimizer_of
from torchlint.model.relations.answer import Answer as Text
from torchlint.model.relations.answer import lines
from torchlint.model.values import Value

__all__ = [
    "Cadence", "Cadences", "Iteration", "Mismatch", "Pace", "Unit", "called_name", "generates", "optimizer_of",
    "reads_memory",
]  # fmt: skip


class Cadences:
    """Answers about events in loops."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._horizons = Horizons(program)
        self._paces = Paces(program, self._horizons)
        self._units = ScheduleUnits(program, self._horizons, self._paces)
        self._iterations: dict[Loop, Iteration] = {}

    def of(self, trace: Trace, event: Event, optimizer: Value) -> Cadence:
        """The frequency of an event, compared with the steps of an optimizer."""
        return self._paces.of(trace, event, optimizer)

    def mismatches(self, trace: Trace) -> Iterator[Mismatch]:
        """The schedules whose length counts something other than their steps."""
        return self._units.mismatches(trace)

    def configured_mismatches(self) -> Iterator[Mismatch]:
        """The same for schedules from Lightning's `configure_optimizers`, with their intervals."""
        return self._units.configured_mismatches()

    def idle_schedules(self) -> Iterator[ast.Call]:
        """The schedulers that modules of Lightning with manual optimization configure, and nothing steps."""
        found = map(idle_schedule, self._program.definitions.classes.values())
        return (call for call in found if call is not None)

    def iteration(self, trace: Trace, loop: Loop) -> Iteration:
        """The role of a loop's iterations, computed once: a step of one training, or a separate job."""
        if loop not in self._iterations:
            self._iterations[loop] = Iteration(self._program, trace, loop)
        return self._iterations[loop]

    # -- in words ---------------------------------------------------------------------------------------

    def answers(self) -> Iterator[Text]:
        """The frequency of each scheduler step, and the unit of the schedule."""
        for trace in self._program.traces:
            for schedule in trace.of(ScheduleStep):
                optimizer = optimizer_of(schedule)
                if optimizer is not None:
                    yield Text(schedule.site, self._said(schedule, self.of(trace, schedule, optimizer)))

    def _said(self, schedule: ScheduleStep, cadence: Cadence) -> str:
        if cadence.pace is Pace.UNKNOWN:
            return f"unknown: {cadence.reason}"
        horizon = self._units.horizon(schedule, cadence)
        unit = f"; its length is in {horizon.unit.value}" if horizon is not None and horizon.unit is not None else ""
        beside = f"; the optimizer steps on {self._lines(cadence)}" if cadence.step is not None else ""
        return f"{cadence.pace.value}{beside}{unit}"

    def _lines(self, cadence: Cadence) -> str:
        assert cadence.step is not None
        return lines(self._program.tree, [cadence.step.site])
