"""A loop iterates over a generator that an earlier loop has used up, so its body never runs again.

For each `for` loop of the program that iterates over a generator with a name, the check asks whether the generator has
already ended when the loop begins. It reports a problem if that was the case in at least two loops over the same
generator, and an optimizer stepped while the generator was in use. The reported line is the one that created the
generator, if a single variable holds it, and otherwise the loop.

Source: "Generator types" in Python's documentation: a generator can be iterated over once.
"""

from __future__ import annotations

import ast
import linecache
import weakref
from collections.abc import Iterator, Sequence
from types import FrameType, GeneratorType
from typing import Any

from torchlint_probe.checks.check import Check, Sighting
from torchlint_probe.claim import Claim, values_of, variables_of
from torchlint_probe.contained import contained
from torchlint_probe.lines import Watch

_LOOPS = 2
_MOST = 1_000
_VISITS = 5_000


class _Loop:
    """A loop over one generator: the steps at its first run, and how often it began with nothing left."""

    def __init__(self, generator: Any, steps: int) -> None:
        self.generator = weakref.ref(generator)
        self.first = self.last = steps
        self.empty = 0
        self.site = 0
        self.name = ""


class ExhaustedGenerator(Check):
    """Asks the generators of flagged loops."""

    name = "exhausted-generator"
    code = "TW606"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._loops: dict[tuple[int, int], _Loop] = {}

    def watches(self) -> Sequence[Watch]:
        claims = [claim for claim in self.probe.plan.claims if claim.rule == self.name]
        return [Watch(claim.file, claim.statement, _Header(claim, self)) for claim in claims]

    def looping(self, claim: Claim, frame: FrameType) -> bool:
        """The header of a loop runs, at its beginning or once more; returns whether the loop is of interest."""
        generators = [value for value in values_of(claim.names, frame) if isinstance(value, GeneratorType)]
        self._look(claim.index, generators, frame)
        return bool(generators)

    def _look(self, claim: int, generators: list[Any], frame: FrameType) -> None:
        for value in generators:
            if len(self._loops) < _MOST:
                key = claim, id(value)
                loop = self._loops.get(key)
                if loop is None or loop.generator() is not value:
                    loop = self._loops[key] = _Loop(value, self.probe.steps)
                if value.gi_frame is None:
                    loop.empty += 1
                    if loop.empty == 1:
                        loop.last = self.probe.steps
                        loop.site, loop.name = self._origin(value, frame)

    def _origin(self, generator: Any, frame: FrameType) -> tuple[int, str]:
        """The line that made a generator, as far as the variables of the running functions show it."""
        sites, current, place, name = self.probe.sites, frame, self.probe.sites.of_frame(frame), ""
        while current is not None:
            number = sites.file(current.f_code)
            held = variables_of(current, current is frame) if number >= 0 else {}
            name = next((key for key, value in held.items() if value is generator), "")
            if name:
                inside = current.f_code.co_firstlineno, current.f_lineno
                line = _assigned(current.f_code.co_filename, name, *inside)
                place = sites.place(number, line) if line else place
            current = current.f_back  # type: ignore[assignment]  # it ends with None
        return place, generator.__name__

    def sightings(self) -> Iterator[Sighting]:
        for loop in list(self._loops.values()):
            if loop.empty >= _LOOPS and loop.last > loop.first:
                message = (
                    f"the generator `{loop.name}` ended in the first loop over it, and {loop.empty:,} later loops got "
                    "nothing from it"
                )
                yield Sighting(loop.site, message, {"loops": loop.empty}, loop.last)


class _Header:
    """The header of a loop."""

    def __init__(self, claim: Claim, check: ExhaustedGenerator) -> None:
        self._claim = claim
        self._check = check
        self._visits = 0

    @property
    def trouble_of(self) -> Any:
        return self._check.probe

    def enter(self, frame: FrameType) -> bool:
        self._visits += 1
        return bool(self._enter(frame)) and self._visits < _VISITS

    @contained
    def _enter(self, frame: FrameType) -> bool:
        return self._check.looping(self._claim, frame)


def _assigned(path: str, name: str, first: int, last: int) -> int:
    """The only line between two that assigns a call to a name; 0 if there are none or more."""
    try:
        tree = ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError, RecursionError):
        return 0
    lines = [
        item.lineno
        for item in ast.walk(tree)
        if isinstance(item, ast.Assign)
        and first <= item.lineno <= last
        and isinstance(item.value, (ast.Call, ast.GeneratorExp))
        and any(isinstance(target, ast.Name) and target.id == name for target in item.targets)
    ]
    return lines[0] if len(lines) == 1 else 0
