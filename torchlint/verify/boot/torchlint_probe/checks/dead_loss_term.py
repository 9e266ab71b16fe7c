"""A term of the loss has no graph, so no parameter learns from it. It is added to terms that have one.

The check follows the results of operators without a gradient (`argmax`, comparisons, conversions to integers) whose
inputs have a graph. It reports a problem if such a result, as a number, was added to a value with a graph, and
`backward` ran on the sum or on a multiple of it in at least three steps. The same applies to values that were computed
without gradients from values with a graph. Values that are detached on purpose, data and constants are not reported.
The reported line is the operator that ended the graph, or the line that turned gradients off.

It also reports a problem if a Python number was added that changes from step to step, and `item()`, `numpy()` or a
similar call has read it from a value with a graph. The program may multiply the number by a constant first. If it
computes the number in another way, the problem is reported only if the same line reads the value and adds the number.

At lines that the linter reports, the check follows all numbers and values without a graph. It reports a problem if the
line computes such a value or adds it to the loss, the value changes from step to step, and `backward` runs on the sum
in at least three steps.

Source: "Autograd mechanics" in PyTorch's notes: only floating-point results of differentiable operators have a graph.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import torch

from torchlint_probe.checks._numbers import READS, Numbers
from torchlint_probe.checks._sources import switch_off
from torchlint_probe.checks.check import Check, Sighting

_CUTTING = {
    getattr(torch.Tensor, name)
    for name in "argmax argmin eq ne gt lt ge le __eq__ __ne__ __gt__ __lt__ __ge__ __le__ long int bool".split()
} | {torch.argmax, torch.argmin, torch.eq, torch.ne, torch.gt, torch.lt, torch.ge, torch.le}
_SUMS = {torch.Tensor.add, torch.Tensor.__add__, torch.Tensor.__radd__, torch.Tensor.__iadd__, torch.add}
_SUMS.add(torch.Tensor.add_)
_KEY = "torchlint-dead-term"
_READS = set(READS)
_OFF = "no_grad"
_AT_LINE = "this line"
"""Stands for an operator where the linter says that a line ends a graph."""
_LINEAR = ("Add", "Sub", "Mul", "Div", "Neg", "Mean", "Sum", "View", "Squeeze", "ToCopy")
_NEAR = 60
_STEPS = 3
_MOST = 2_000


class DeadLossTerm(Check):
    """Follows values whose graph has ended, from step to step."""

    name = "dead-loss-term"
    code = "TL312"
    uses_lines = True

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._dead: dict[int, tuple[weakref.ref[torch.Tensor], str, int]] = {}
        """By identity: results of an operator without a gradient, its name and its site."""
        self._steps: dict[tuple[str, int], set[int]] = {}
        self._sums: dict[tuple[str, int], int] = {}
        """By the same name and site, the steps at which the value was added to one with a graph."""
        self._right: dict[int, int] = {}
        """How often a line added two values with graphs; counted only if a finding is about the line."""
        self._added: dict[int, _Added] = {}
        """By line of a finding, the values without a graph that it added to one with a graph."""
        self._claimed: dict[int, bool] = {}
        self._counts = self.is_asked(self.name)
        self._numbers = Numbers(probe)
        self._places: dict[tuple[str, int], tuple[str, int, int]] = {}
        """By name and site, for numbers, the lines that read and add them."""

    def operated(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        if self._counts:
            self._look_at_line(func, args, result)
        if func in _READS:
            self._numbers.read(func, args, result)
            return
        if not torch.is_grad_enabled():
            self._without_gradients(args, kwargs, result)
            return
        if func in _SUMS:
            self._note_number(args, result)
        if not self._dead and func not in _CUTTING:
            return  # nearly always, and at every operator
        if not isinstance(result, torch.Tensor):
            return
        if func in _CUTTING and any(isinstance(item, torch.Tensor) and item.requires_grad for item in args):
            self._follow(result, str(func.__name__).strip("_"), self.probe.sites.here())
        elif self._dead:
            self._go_on(func, args, kwargs, result)

    def _go_on(self, func: Any, args: Any, kwargs: Any, result: torch.Tensor) -> None:
        """An operator may have received a dead value."""
        known = [dead for item in (*args, *kwargs.values()) if (dead := self._dead.get(id(item))) is not None]
        if not known or all(dead[0]() is None for dead in known):
            return
        if not result.requires_grad:
            self._follow(result, *known[0][1:])
        elif func in _SUMS and result.numel() == 1 and result.grad_fn is not None:
            result.grad_fn.metadata.setdefault(_KEY, []).append(known[0][1:])
            if self._counts:
                self._sums[known[0][1:]] = self.probe.sites.here()

    def _without_gradients(self, args: Any, kwargs: Any, result: Any) -> None:
        """An operator was called while gradients are off."""
        if not isinstance(result, torch.Tensor) or not result.is_floating_point() or result.requires_grad:
            return
        if any(isinstance(item, torch.Tensor) and item.grad_fn is not None for item in args):
            self._follow(result, _OFF, self.probe.sites.here())
        elif self._dead:
            known = (dead for item in (*args, *kwargs.values()) if (dead := self._dead.get(id(item))) is not None)
            dead = next((dead for dead in known if dead[1] == _OFF and dead[0]() is not None), None)
            if dead is not None:
                self._follow(result, *dead[1:])

    def _note_number(self, args: Any, result: Any) -> None:
        """Two values were added: one may be a number that was read from a value with a graph."""
        if isinstance(result, torch.Tensor) and result.numel() == 1 and result.grad_fn is not None:
            for name, read, place in self._numbers.added(args):
                cut = f"{name}()", read
                self._places[cut] = name, read, place
                result.grad_fn.metadata.setdefault(_KEY, []).append(cut)

    def _look_at_line(self, func: Any, args: Any, result: Any) -> None:
        """An operator has run, and there are findings: the line of one may have made or added a value."""
        if not isinstance(result, torch.Tensor) or result.numel() != 1:
            return
        is_sum = func in _SUMS and result.requires_grad
        if not is_sum and (result.requires_grad or not result.is_floating_point()):
            return
        site = self.probe.sites.here()
        if not self._is_claimed(site):
            return
        if is_sum:
            self._count(site, args, result)
        elif torch.is_grad_enabled() and id(result) not in self._dead:
            self._follow(result, _AT_LINE, site)
            self._added.setdefault(site, _Added()).values.append(result.detach())

    def _count(self, site: int, args: Any, result: torch.Tensor) -> None:
        """The line of a finding has added two values."""
        rootless = [item for item in args if not (isinstance(item, torch.Tensor) and item.requires_grad)]
        if not rootless:
            self._right[site] = self._right.get(site, 0) + 1
            return
        added = self._added.setdefault(site, _Added())
        added.values += rootless[: _MOST - len(added.values)]
        if result.grad_fn is not None:
            result.grad_fn.metadata.setdefault(_KEY, []).append((_AT_LINE, site))

    def _follow(self, result: torch.Tensor, name: str, site: int) -> None:
        if len(self._dead) < _MOST:
            self._dead[id(result)] = weakref.ref(result), name, site

    def before_backward(self, roots: list[torch.Tensor], site: int) -> None:
        for node in _near(roots):
            for cut in node.metadata.get(_KEY, ()):
                self._steps.setdefault(cut, set()).add(self.probe.steps)

    def after_step(self, optimizer: Any) -> None:
        self._dead = {number: dead for number, dead in self._dead.items() if dead[0]() is not None}
        self._numbers.forget()

    def sightings(self) -> Iterator[Sighting]:
        for (name, site), steps in list(self._steps.items()):
            if name == _AT_LINE and (not self._added[site].changes or self._is_named(site)):
                continue
            if (name, site) in self._places and not self._numbers.is_proven(*self._places[name, site]):
                continue
            if len(steps) >= _STEPS:
                ends = "a term of the loss has no graph" if name == _AT_LINE else f"`{name}` ends the graph of a term"
                message = f"{ends}: it was added at {len(steps):,} steps, and no parameter learned from it"
                place = self._sums.get((name, site), site)
                where = self._switch(site) if name == _OFF else site
                yield Sighting(place if self._is_claimed(place) else where, message, {"steps": len(steps)}, min(steps))

    def _switch(self, site: int) -> int:
        """The line that switched gradients off at a site."""
        stack = self.probe.sites.stacks[site]
        places = ((file, switch_off(self.probe.sites.files[file], line)) for file, line in stack)
        return next((self.probe.sites.place(file, line) for file, line in places if line), site)

    def acquittals(self) -> Iterator[Sighting]:
        for site, sums in list(self._right.items()):
            if sums >= _STEPS and site not in self._sums.values() and not self._adds_values(site):
                yield Sighting(site, f"both terms had a graph in all of {sums:,} sums", {"sums": sums})

    def _is_named(self, site: int) -> bool:
        """Whether an operator that ends a graph is known for the sums of a line."""
        own = [cut for cut, place in self._sums.items() if place == site and cut[0] != _AT_LINE]
        return any(len(self._steps.get(cut, ())) >= _STEPS for cut in own)

    def _adds_values(self, site: int) -> bool:
        """Whether a line has added numbers, or values without a graph."""
        return site in self._added

    def _is_claimed(self, site: int) -> bool:
        """Whether a finding is about a line."""
        if site not in self._claimed:
            claims = [item for item in self.probe.plan.claims if item.rule == self.name]
            self._claimed[site] = any(
                item.file == file and item.statement[0] <= line <= item.statement[1]
                for file, line in self.probe.sites.stacks[site][:1]
                for item in claims
            )
        return self._claimed[site]


class _Added:
    """Numbers and values without a graph, of one line."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    @property
    def changes(self) -> bool:
        """Whether they differ from step to step, as constants do not. This waits for the device."""
        return len({float(item) for item in self.values}) > 1


def _near(roots: list[torch.Tensor]) -> Iterator[Any]:
    """The nodes that make up the loss through sums, multiples and means."""
    waiting, seen = [root.grad_fn for root in roots if root.grad_fn is not None], 0
    while waiting and seen < _NEAR:
        node = waiting.pop()
        seen += 1
        if node.name().startswith(_LINEAR):
            yield node
            waiting += [following for following, _ in node.next_functions if following is not None]
