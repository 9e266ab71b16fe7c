"""The ledgers of all optimizers and of leaves without one, and the rules for which thread may read which ledger.

The engine writes gradients without Python's lock, so no thread reads gradients that another thread's backward may be
writing. The leaves of a graph show the gradients that a backward writes.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from torchlint_probe.clearings import Clearing
from torchlint_probe.graphs import NODES, leaves, nodes
from torchlint_probe.ledger import Ledger
from torchlint_probe.manual import ManualUpdates
from torchlint_probe.slots import Slot

_WALKS = 3
"""The number of first backwards whose graphs are searched for leaves if one thread trains; all if several do."""
_ENOUGH = 12
"""The minimum number of observed steps per optimizer."""


class Flight:
    """A backward that runs. `ledgers` are those that it may write to; None if that is not known."""

    __slots__ = ("ledgers", "manual", "site")

    def __init__(self, site: int, ledgers: list[Ledger] | None, manual: ManualUpdates | None) -> None:
        self.site = site
        self.ledgers = ledgers
        self.manual = manual

    def may_write(self, ledger: Ledger) -> bool:
        return self.ledgers is None or ledger in self.ledgers


_UNSEEN = Flight(0, None, None)


class Ledgers:
    """Reports events of gradients to each ledger."""

    def __init__(self, wanted: bool) -> None:
        """Steps are counted even where nothing about gradients is `wanted`."""
        self._wanted = wanted
        self.of_optimizers: list[Ledger] = []
        self.clearings: list[Clearing] = []
        """The observers of updates that are about to start."""
        self._living: list[Ledger] = []
        self.looking = wanted
        self._lock = threading.RLock()
        self._manual: dict[int, ManualUpdates] = {}
        self._by_optimizer: dict[int, Ledger] = {}
        self._shared: dict[Ledger, list[Slot]] = {}
        """By ledger, the slots of others with the same parameters."""
        self._flights: dict[int, Flight] = {}
        self._threads: set[int] = set()
        self._steppers: set[int] = set()
        self._walks = 0

    @property
    def all(self) -> list[Ledger]:
        """The ledgers of optimizers, and those of manual updates, one per thread."""
        return [*self.of_optimizers, *(manual.ledger for manual in list(self._manual.values()))]

    @property
    def manual(self) -> Ledger:
        """The ledger of updates that this thread makes by hand."""
        return self._manual_of(threading.get_ident()).ledger

    def _manual_of(self, thread: int) -> ManualUpdates:
        if thread not in self._manual:
            self._manual[thread] = ManualUpdates(self._owned)
        return self._manual[thread]

    def _owned(self) -> Iterator[torch.Tensor]:
        """The parameters of optimizers."""
        slots = (slot for ledger in self._living for slot in ledger.slots)
        return (parameter for slot in slots if (parameter := slot.parameter()) is not None)

    def of(self, optimizer: Any) -> Ledger:
        """The ledger of an optimizer, with its current parameters."""
        ledger = self._by_optimizer.get(id(optimizer))
        if ledger is None or ledger.owner is None or ledger.owner() is not optimizer:
            ledger = Ledger(optimizer, type(optimizer).__name__)
            self._by_optimizer[id(optimizer)] = ledger
            self.of_optimizers.append(ledger)
            self._living.append(ledger)
        if ledger.watch([parameter for group in optimizer.param_groups for parameter in group["params"]]):
            self._shared.clear()
        return ledger

    def slots_of(self, optimizer: Any, leaves: Iterable[torch.Tensor]) -> list[Slot]:
        """The slots for some parameters of an optimizer, which record their gradients now and later."""
        wanted = {id(leaf) for leaf in leaves}
        with self._lock:
            return [slot for slot in self.of(optimizer).slots if id(slot.parameter()) in wanted]

    def add(self, optimizer: Any) -> None:
        """An optimizer has got parameters."""
        with self._lock:
            ledger = self.of(optimizer)
            for manual in self._manual.values():
                manual.release(ledger.slots)

    # -- threads

    def _thread(self) -> int:
        """This thread; in a hook that the engine calls in its own thread, the thread of the backward."""
        thread = threading.get_ident()
        if thread not in self._threads and len(self._flights) == 1 and torch._C._current_graph_task_id() != -1:
            return next(iter(self._flights))
        return thread

    def caller(self) -> int:
        """The site of the backward that calls this hook from a thread of the engine's; 0 where a frame shows it."""
        thread = self._thread()
        return 0 if thread == threading.get_ident() else self._flights[thread].site

    def _enter(self, thread: int) -> None:
        """A thread trains. If it is the second one, the current rounds cannot be separated from the other's."""
        if thread in self._threads:
            return
        self._threads.add(thread)
        if len(self._threads) > 1:
            self._flights = dict.fromkeys(self._flights, _UNSEEN)
            for ledger in self.of_optimizers:
                ledger.lose()

    def _others(self, thread: int) -> list[Flight]:
        if len(self._flights) <= (thread in self._flights):
            return []
        return [flight for other, flight in self._flights.items() if other != thread]

    # -- backwards

    def before_backward(self, roots: list[torch.Tensor], site: int, step: int, measure: bool) -> None:
        """A backward of this thread is about to add to gradients."""
        if not self._wanted:
            return
        thread = self._thread()
        with self._lock:
            self._enter(thread)
            if not self.looking:
                self._flights[thread] = _UNSEEN
                return
            flight = self._begin(thread, roots, site)
            others = self._others(thread)
            self._flights[thread] = flight
            for ledger in flight.ledgers or ():
                if not any(other.may_write(ledger) for other in others):
                    self._forget_clearings(ledger)
                    ledger.before_backward(measure)
            if flight.manual is not None:
                flight.manual.before_backward(site, step)

    def _begin(self, thread: int, roots: list[torch.Tensor], site: int) -> Flight:
        manual = self._manual_of(thread)
        alone = len(self._threads) == 1
        living = self._living = [ledger for ledger in self._living if ledger.alive]
        if alone and self._walks >= _WALKS:
            return Flight(site, living, manual)
        self._walks += 1
        graph = nodes(roots)
        met = {id(leaf): leaf for leaf in leaves(graph)}
        self._take(manual, met)
        if alone:
            return Flight(site, living, manual)
        if len(graph) >= NODES:
            return Flight(site, None, None)
        return Flight(site, [ledger for ledger in living if _has_any(ledger, met)], manual)

    def _take(self, manual: ManualUpdates, met: dict[int, torch.Tensor]) -> None:
        """Follow the leaves of no optimizer; one that two threads use is followed by neither."""
        owned = {id(slot.parameter()) for ledger in self.of_optimizers for slot in ledger.slots}
        shared = [
            slot
            for other in self._manual.values()
            if other is not manual
            for slot in other.ledger.slots
            if id(slot.parameter()) in met
        ]
        for other in self._manual.values() if shared else ():
            other.release(shared)
        owned |= {id(slot.parameter()) for slot in shared}
        manual.take([leaf for key, leaf in met.items() if key not in owned])

    def after_backward(self, passed: bool) -> None:
        """The backward of this thread has ended, without an error if it `passed`."""
        thread = self._thread()
        with self._lock:
            flight = self._flights.pop(thread, None)
            if flight is None or not self.looking:
                return
            if flight.ledgers is None:
                return
            others = self._others(thread)
            fed = [ledger for ledger in flight.ledgers if self._end(ledger, flight, others, thread, passed)]
            if len(fed) == 1:
                fed[0].round.fed_alone()
            for clearing in self.clearings:
                for ledger in fed:
                    clearing.feed(ledger)
            if flight.manual is not None and passed:
                flight.manual.after_backward(flight.site, thread)

    @staticmethod
    def _end(ledger: Ledger, flight: Flight, others: list[Flight], thread: int, passed: bool) -> bool:
        """Whether the backward has added to a ledger. The last of several simultaneous ones reports for all."""
        writing = [other for other in others if other.may_write(ledger)]
        if any(other.ledgers is None for other in writing):
            ledger.lose()
            return False
        if writing:
            ledger.round.feeders.add(thread)
            return False
        return passed and ledger.after_backward(flight.site, thread)

    # -- steps

    def before_step(self, optimizer: Any, site: int, step: int, measure: bool, evaluates: bool) -> Ledger:
        """An optimizer is about to step."""
        thread = self._thread()
        with self._lock:
            self._enter(thread)
            self._steppers.add(thread)
            ledger = self.of(optimizer)
            if not self.looking:
                return ledger
            self._contest(ledger, thread)
            ledger.users.add(thread)
            if not evaluates:
                self._tell_clearings(ledger, step)
            ledger.before_step(site, step, measure, evaluates)
            return ledger

    def _contest(self, ledger: Ledger, thread: int) -> None:
        """Check whether this thread steps on gradients that other threads add to, or did for their own steps."""
        if len(self._threads) == 1:
            return
        inside = torch._C._current_graph_task_id() != -1  # a step in a hook of the backward itself
        writing = [other for other in self._others(thread) if other.may_write(ledger)]
        if writing and not inside:
            ledger.lose()
            ledger.contested |= any(other.ledgers is not None for other in writing)
        ledger.contested |= bool((ledger.round.feeders - {thread}) & self._steppers)

    def evaluated(self, ledger: Ledger, site: int, step: int) -> None:
        """A closure has returned to the step that called it."""
        with self._lock:
            if self.looking:
                self._tell_clearings(ledger, step)
                ledger.evaluated(site, step)
                self._share(ledger)

    def stepped(self, optimizer: Any) -> Ledger:
        """An optimizer has stepped."""
        with self._lock:
            if not self.looking:
                return self.pass_by(optimizer)
            ledger = self._by_optimizer[id(optimizer)]
            for other in self._living:
                if other is not ledger:
                    other.round.spend(ledger.round)
            for clearing in self.clearings:
                clearing.end(ledger)
            ledger.after_step()
            self._share(ledger)
            return ledger

    def _share(self, ledger: Ledger) -> None:
        """Mark gradients that an optimizer has used as used for all others with the same parameters."""
        if ledger not in self._shared:
            own = {id(slot.parameter()) for slot in ledger.slots}
            others = (slot for other in self._living if other is not ledger for slot in other.slots)
            self._shared[ledger] = [slot for slot in others if id(slot.parameter()) in own]
        for slot in self._shared[ledger]:
            slot.use()

    # -- gradients that a flagged line clears

    @contextlib.contextmanager
    def reading(self) -> Iterator[list[Ledger]]:
        """The ledgers of optimizers that only this thread trains with; none while nothing is observed.

        To read a gradient while another thread clears it crashes the program, as it does while one is written.
        """
        with self._lock:
            own = {self._thread()}
            yield [ledger for ledger in self._living if ledger.users == own] if self.looking else []

    def _tell_clearings(self, ledger: Ledger, step: int) -> None:
        for clearing in self.clearings:
            clearing.use(ledger, step)

    def _forget_clearings(self, ledger: Ledger) -> None:
        for clearing in self.clearings:
            clearing.forget(ledger)

    # -- rests

    def look(self, looks: bool) -> None:
        """Start or stop observing. If several threads train, a stop is final."""
        with self._lock:
            if self.looking and not looks:
                for ledger in self.all:
                    ledger.rest()
                for manual in self._manual.values():
                    manual.lose()
            self.looking = looks and self._wanted and (self.looking or len(self._threads) < 2)

    def has_enough(self, ledger: Ledger) -> bool:
        """Whether enough steps of an optimizer have been observed."""
        return not self._wanted or ledger.owner is None or ledger.looked_at >= _ENOUGH

    def fly(self) -> None:
        """A backward of this thread is about to run unobserved: other threads must not read its gradients."""
        if self._wanted:
            self._flights[threading.get_ident()] = _UNSEEN

    def pass_by(self, optimizer: Any) -> Ledger:
        """An optimizer has made an unobserved step."""
        ledger = self._by_optimizer.get(id(optimizer)) or self.of(optimizer)
        ledger.pass_by(look=self._wanted and len(self._threads) < 2)
        return ledger


def _has_any(ledger: Ledger, parameters: dict[int, torch.Tensor]) -> bool:
    return any(id(slot.parameter()) in parameters for slot in ledger.slots)
