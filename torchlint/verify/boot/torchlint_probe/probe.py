"""One observed process, and the events for its observers."""

from __future__ import annotations

import functools
import os
import platform
import sys
import threading
import weakref
from typing import Any, TypeVar

import torch

from torchlint_probe.backwards import Backwards
from torchlint_probe.budget import Budget
from torchlint_probe.checks import Checks
from torchlint_probe.clearings import Clearing
from torchlint_probe.compiling import compiled_lines
from torchlint_probe.contained import contained
from torchlint_probe.cuts import Cuts
from torchlint_probe.forwards import Forwards
from torchlint_probe.graphs import LiveGraphs, tensors_in
from torchlint_probe.hooks import Hooks
from torchlint_probe.inplace import Change
from torchlint_probe.installation import watches
from torchlint_probe.keeping import Keeps
from torchlint_probe.ledger import Ledger
from torchlint_probe.ledgers import Ledgers
from torchlint_probe.lines import Lines
from torchlint_probe.log import Log
from torchlint_probe.losses import Losses
from torchlint_probe.memory import Meter
from torchlint_probe.observer import Observer
from torchlint_probe.observers import observers
from torchlint_probe.operators import Operators
from torchlint_probe.outputs import CallObserver
from torchlint_probe.plan import Plan
from torchlint_probe.reach import Reach
from torchlint_probe.reads import Reads
from torchlint_probe.retention import Retention
from torchlint_probe.sampling import Sampling
from torchlint_probe.sites import Sites
from torchlint_probe.snapshot import evidence
from torchlint_probe.spans import Spans
from torchlint_probe.standstill import Standstill
from torchlint_probe.timeline import Timeline
from torchlint_probe.upkeep import Anomaly, Caches

_MEASURED = 10
"""The number of first steps with gradient norms; afterwards one in `_MEASURED_EVERY`."""
_MEASURED_EVERY = 10
_ALTERNATING = 10
"""The number of last steps before the stop with alternating anomaly detection."""

_ERRORS = 20
"""The maximum number of different errors of modules, operators and backwards."""

_GRADIENTS = {"missing-zero-grad", "cleared-before-step", "step-without-backward", "training-under-no-grad"}
_GRAPHS = {"undetached-accumulation", "retain-graph-in-loop"}

Asking = TypeVar("Asking", bound=Observer)


class _Local(threading.local):
    """The current activity of one thread."""

    def __init__(self) -> None:
        self.in_backward = False
        self.stepping: list[Any] = []
        """The optimizers whose `step` is running, outermost first."""
        self.is_followed = False
        """Whether lines were followed when the outermost of them began."""


class Probe:
    """The observations of this process; a forked child starts again without any."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rules = {*plan.rules, *(claim.rule for claim in plan.claims)}
        self.sites = Sites(plan.root, plan.files, plan.start)
        self.lines = Lines(self.sites)
        self.log = Log(
            plan.folder, plan.key, plan.deadline, self._evidence, lambda: self.steps, lambda: self.checks.standing
        )
        self.hooks = Hooks()
        self._reset()

    @classmethod
    def from_folder(cls, folder: str) -> Probe:
        return cls(Plan.read(folder))

    def _reset(self) -> None:
        """Reset all observations."""
        plan = self.plan
        self.pid = os.getpid()
        self.steps = 0
        self.local = _Local()
        self.looking = True
        self.passed = 0
        """Backwards that have ended without an error."""
        self._sampling = Sampling()
        self._lock = threading.RLock()
        self.meter = Meter()
        self.ledgers = Ledgers(bool(self.rules & _GRADIENTS) or plan.compared)
        self.backwards: dict[int, Backwards] = {}
        self.graphs = LiveGraphs(bool(self.rules & _GRAPHS) or plan.compared)
        self.observers: list[Observer] = observers(self)
        self._alike: dict[type[Observer], list[Any]] = {}
        self._asking: dict[tuple[type[Observer], int], list[Any]] = {}
        self.checks = Checks(self, plan.checks)
        self._made: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._order: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self.optimizers = 0
        """The number of optimizers that were made."""
        told = self.checks.operators()
        self.operators = None if told is None else Operators(self, told, self.checks.every_call)
        self.hears_calls = bool(self.checks) or any(observer.hears_calls for observer in self.observers)
        tell = self._called if self.hears_calls else None
        self.spans = Spans(self, plan.is_traced)
        self.forwards = Forwards(self, tell)
        self.cuts = Cuts(self)
        self.retention = Retention()
        self.caches = Caches()
        self.anomaly = Anomaly()
        self.timeline = Timeline()
        self.losses = Losses()
        self.reach = {claim.index: Reach(self._reached) for claim in plan.claims}
        self.keeps = [Keeps(claim, self) for claim in plan.claims if claim.rule == "undetached-accumulation"]
        self.reads = {claim.index: Reads(claim) for claim in plan.claims if claim.rule == "training-under-no-grad"}
        self.clearings = [Clearing(claim, self.ledgers) for claim in plan.claims if claim.rule == "cleared-before-step"]
        self.ledgers.clearings = self.clearings
        self.changes = [Change(claim) for claim in plan.claims if claim.rule.startswith("inplace-")]
        self._follows_anomaly = "anomaly-detection-left-on" in self.rules or plan.compared
        self.saved_hooks = False
        """Whether saved tensors may be packed: then reading them from a graph would run code of the program."""
        self.error = self.trouble = ""
        self.error_site = 0
        self.raised: dict[tuple[int, str], int] = {}
        """By site and text, how often training code raised an error. The program may have ignored it."""
        self.raised_later: dict[int, tuple[int, str]] = {}
        """By site, how often it raised one after the first step, and the last text."""
        self.standstill = Standstill(plan.deadline, self.sites)
        self.compiling: list[tuple[int, int]] = []
        """The lines that `torch.compile` was compiling when the program failed."""
        self.finished = False
        self.budget = Budget(plan, self.log.write)

    @property
    def trouble_of(self) -> Probe:
        return self

    # -- the process

    def in_parent(self) -> None:
        """This process has forked, and goes on."""
        if self.backwards or self.steps:
            self.log.start()
        else:
            self.wait()

    def observe_operators(self, on: bool) -> None:
        """Start or stop observing operators, if a check needs any."""
        if self.operators is not None:
            self.operators.switch((on and self.looking) or self.operators.is_searching)

    def end_operators(self) -> None:
        """Stop observing operators permanently."""
        if self.operators is not None:
            self.operators.end()

    def in_child(self) -> None:
        """This process is a fork: it has no observations."""
        self.end_operators()
        self.log.forked()
        self._reset()
        self.lines.watch(watches(self))

    def exit_hook(self, original: Any, status: int) -> None:
        """The process ends, and nothing that is registered with `atexit` runs."""
        self.finish()
        original(status)

    def run_hook(self, original: Any, process: Any) -> None:
        """A process of `multiprocessing` runs. Its end does not pass on the error."""
        self._noting(original, process)

    def spawn_hook(self, original: Any, function: Any, *args: Any, **kwargs: Any) -> None:
        """A rank that `torch.multiprocessing.spawn` has started runs; the same holds of it."""
        original(functools.partial(self._noting, function), *args, **kwargs)

    def _noting(self, function: Any, *args: Any) -> Any:
        try:
            return function(*args)
        except Exception as error:
            if os.getpid() == self.pid and self.steps + self.forwards.entered:
                self._fail(error)
            raise

    def finish(self) -> None:
        """The process ends: write the remaining evidence."""
        if os.getpid() != self.pid:
            return
        error = getattr(sys, "last_value", None)
        if error is not None and not isinstance(error, SystemExit):
            self._fail(error)
        self.finished = True
        self.lines.end()
        self.log.pause()
        self.log.write()
        self.log.stand()

    @contained
    def _fail(self, error: BaseException) -> None:
        self.error = f"{type(error).__name__}: {error}"[:500]
        self.error_site = self.sites.of_traceback(error.__traceback__)
        self.checks.tell("died", error)
        if "torch._dynamo" in sys.modules:
            self.compiling = compiled_lines(error.__traceback__, self.sites)

    @contained
    def note_error(self, error: Exception, is_operator: bool = False) -> None:
        """An outermost call of a module or an operator, or a backward, raises an error."""
        if self.steps and is_operator:
            return  # only needed where no step is ever made
        site = self.sites.joined(self.sites.of_traceback(error.__traceback__), self.sites.here())
        text = f"{type(error).__name__}: {error}"[:300]
        if self.steps:
            self.raised_later[site] = self.raised_later.get(site, (0, ""))[0] + 1, text
        elif (site, text) in self.raised or len(self.raised) < _ERRORS:
            self.raised[site, text] = self.raised.get((site, text), 0) + 1

    def asking(self, kind: type[Asking]) -> list[Asking]:
        """The observers of a class whose flagged statement is running, and that need more observations."""
        alike = self._alike.get(kind)
        if alike is None:
            alike = self._alike[kind] = [item for item in self.observers if isinstance(item, kind)]
        if all(item.is_done for item in alike):
            return []
        site = self.sites.here()
        known = self._asking.get((kind, site))
        if known is None:
            stack = self.sites.stacks[site]
            known = self._asking[kind, site] = [item for item in alike if item.is_in(stack)]
        return known

    def wait(self) -> None:
        """Nothing is trained yet. At its deadline a watched run reports where it waits."""
        if self.plan.checks and self.plan.deadline < float("inf"):
            self.log.wait()

    def wait_for_ranks(self) -> None:
        """This process is a rank: it reports the collective calls it makes, and waits in."""
        if not self.log.is_running:
            self.log.wait()

    # -- events from the hooks

    def begin(self) -> None:
        """The first event: from now on evidence is written, and the clock runs."""
        self.log.start()
        self.budget.start()

    @contained
    def _reached(self) -> None:
        """Flagged code runs. Without training this is written immediately, because workers are killed silently."""
        if not self.log.is_running:
            self.log.write()

    @property
    def is_measured(self) -> bool:
        """Whether this step is one at which more is measured."""
        return self.steps < _MEASURED or self.steps % _MEASURED_EVERY == 0

    @property
    def is_quiet(self) -> bool:
        """Whether steps are only counted for a while."""
        return not self.looking

    @property
    def passes_routine(self) -> bool:
        """Whether routine training calls of a module are not observed."""
        return not self.looking and not self.observers and not self.spans.wanted

    def before_any_backward(self, tensors: Any) -> None:
        """A backward of these is about to run, observed or not."""
        if self._follows_anomaly:
            self.anomaly.before_backward()
        if self.graphs.wanted:
            self.graphs.go_backward(tensors_in(tensors), self.passed)

    def before_backward(self, roots: list[torch.Tensor], site: int, retains: bool) -> None:
        """A backward is about to run."""
        self.before_any_backward(roots)
        if self.plan.compared:
            self.losses.add(roots)
        self.ledgers.before_backward(roots, site, self.steps, self.is_measured)
        if "retain-graph-in-loop" in self.rules:
            self.retention.meet(roots, retains, site)
        self.cuts.before_backward(roots, site)
        for observer in self.observers:
            observer.before_backward(roots)
        self.checks.before_backward(roots, site)
        if not self.saved_hooks:
            for change in self.changes:
                change.before_backward(roots)

    def after_backward(self, site: int) -> None:
        """A backward has ended without an error."""
        self.passed += 1
        self.ledgers.after_backward(True)
        if self.looking:
            self.checks.tell("after_backward", site)
        if self.looking:
            for change in self.changes:
                change.backward_passed(self.steps)

    def backward_failed(self, roots: list[torch.Tensor], error: Exception, site: int) -> None:
        """A backward has raised."""
        self.forwards.resolve(self.ledgers.of_optimizers)
        for change in self.changes:
            change.backward_failed(roots, error, self.steps)
        self.checks.tell("backward_failed", roots, error, site)

    @contained
    def end_step(self, ledger: Ledger) -> None:
        """A step has ended: of an optimizer, or a backward where there is none."""
        with self._lock:
            if self.is_measured:
                self._resolve()
            self.steps += 1
            self.standstill.move()
            self._record(ledger)
            if not self.ledgers.has_enough(ledger):
                self._sampling.extend(self.steps)
            looks = self._sampling.covers(self.steps) or self.plan.compared
            if looks is not self.looking:
                self._look(looks)

    @contained
    def _called(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        """An outermost call of a module has ended."""
        for asking in self.asking(CallObserver):
            asking.call(module, args, output)
        for observer in self.observers:
            observer.hear(module)
        self.checks.called(module, args, output)

    def _look(self, looks: bool) -> None:
        self.looking = looks
        self.ledgers.look(looks)
        self.observe_operators(looks)
        self.retention.rest()

    def _resolve(self) -> None:
        """Find the owners of parameters in modules and names that ran without gradients."""
        self.forwards.resolve(self.ledgers.of_optimizers)
        for read in self.reads.values():
            read.resolve(self.ledgers)

    def _record(self, ledger: Ledger) -> None:
        milliseconds = self.meter.lap()
        near = self.budget.is_near(self.steps, _ALTERNATING)
        anomaly = self._follows_anomaly and self.anomaly.step(milliseconds, near)
        emptied, self.caches.seconds = self.caches.seconds, 0.0
        norms = ledger.norms.take()
        if not self.timeline.wants(self.steps):
            self.losses.drop()
            return
        record: dict[str, Any] = {"ms": milliseconds, "anomaly": anomaly}
        self.meter.measure(record)
        if self.graphs.wanted:
            record["graphs"] = self.graphs.alive
        if emptied:
            record["emptied"] = emptied * 1000
        if norms is not None:
            record["norm"], record["fresh"] = norms
        self.losses.end_step(record)
        self.timeline.add(self.steps, record)

    # -- switches

    def group_hook(self, original: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """An optimizer receives parameters."""
        result = original(optimizer, *args, **kwargs)
        self._add(optimizer)
        return result

    @contained
    def _add(self, optimizer: Any) -> None:
        self.ledgers.add(optimizer)
        if self.checks:
            self._made.setdefault(optimizer, self.sites.here())
            if optimizer not in self._order:
                self._order[optimizer] = self.optimizers
                self.optimizers += 1

    @property
    def all_optimizers(self) -> list[Any]:
        """All that have been made and are alive, whether they have stepped or not."""
        return list(self._made)

    def order_of(self, optimizer: Any) -> int:
        """The number of an optimizer, in the order of their creation; -1 if that was not observed."""
        return self._order.get(optimizer, -1)

    @property
    def made(self) -> list[Any]:
        """The optimizers that exist, in the order of their creation."""
        return list(self._order)

    def made_at(self, optimizer: Any) -> int:
        """The site at which an optimizer received its first parameters; 0 if that was not observed."""
        return self._made.get(optimizer, 0)

    def anomaly_hook(self, original: Any, mode: bool, *args: Any, **kwargs: Any) -> None:
        """Anomaly detection is switched."""
        self.anomaly.call(original, self.sites.here(), bool(mode), self.sites.is_library_calling(), args, kwargs)

    def cache_hook(self, original: Any) -> None:
        """The cache is emptied."""
        self.caches.call(original, self.sites.here())

    def clear_hook(self, original: Any, owner: Any, *args: Any, **kwargs: Any) -> Any:
        """Gradients are cleared, by code that calls none of the program's and no operator of interest."""
        is_followed, is_on = self.lines.switch(False), self.operators is not None and self.operators.is_on
        if is_on:
            self.observe_operators(False)
        try:
            return original(owner, *args, **kwargs)
        finally:
            if is_on:
                self.observe_operators(True)
            self.lines.switch(is_followed)

    def saved_hook(self, original: Any, hooks: Any) -> None:
        """From now on saved tensors may be packed."""
        self.saved_hooks = True
        original(hooks)

    # -- evidence

    def _evidence(self) -> dict[str, Any] | None:
        if os.getpid() != self.pid:
            return None
        return evidence(self)

    def environment(self) -> dict[str, Any]:
        """The properties of this process, such as its device."""
        return {
            "pid": self.pid,
            "rank": os.environ.get("RANK", ""),
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "device": self.meter.device,
            "compiled": _compiled_graphs(),
        }


def _compiled_graphs() -> int:
    """The number of graphs that `torch.compile` has made; their lines do not run any more."""
    utils = sys.modules.get("torch._dynamo.utils")
    counters = getattr(utils, "counters", {})
    return int(counters["stats"]["unique_graphs"]) if "stats" in counters else 0
