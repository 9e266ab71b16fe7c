"""Hooks into torch, and what they tell the observers."""

from __future__ import annotations

import atexit
import functools
import os
import platform
import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from torch.optim.optimizer import Optimizer

from torchlint_probe.budget import Budget
from torchlint_probe.forwards import Forwards
from torchlint_probe.graphs import KEY, Count, Root, tensors_in
from torchlint_probe.hooks import Hooks
from torchlint_probe.inplace import Change
from torchlint_probe.keeping import Keep
from torchlint_probe.ledger import Ledger
from torchlint_probe.ledgers import Ledgers
from torchlint_probe.lines import Lines, Watch
from torchlint_probe.log import Log
from torchlint_probe.losses import Losses
from torchlint_probe.memory import Meter
from torchlint_probe.plan import Plan
from torchlint_probe.reach import Reach
from torchlint_probe.reads import Reads
from torchlint_probe.retention import Retention
from torchlint_probe.sites import Sites
from torchlint_probe.snapshot import evidence
from torchlint_probe.timeline import Timeline
from torchlint_probe.upkeep import Anomaly, Caches

_MEASURED = 10
"""Gradient norms are taken at the first so many steps, then at one in `_MEASURED_EVERY`."""
_MEASURED_EVERY = 10
_ALTERNATING = 10
"""On the last so many steps before the stop, anomaly detection alternates."""
_PATIENCE = 200
"""So many lines of a function that trains without gradients are followed for the parameters that it names."""
_ERRORS = 10
"""So many different errors of one backward are kept."""

Method = TypeVar("Method", bound=Callable[..., Any])


def _contained(method: Method) -> Method:
    """A fault of the probe's own is noted and not the program's problem."""

    @functools.wraps(method)
    def contained(self: Probe, *args: Any) -> Any:
        try:
            return method(self, *args)
        except Exception as error:
            self.trouble = self.trouble or f"{type(error).__name__} in {method.__name__}: {error}"[:300]
            return None

    return cast("Method", contained)


class Backwards:
    """What is known of the backwards from one site."""

    def __init__(self) -> None:
        self.count = 0
        self.retained = 0
        self.errors: Counter[str] = Counter()
        self.first_error = 0


class Probe:
    """One process under observation."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.sites = Sites(plan.root, plan.files, plan.start)
        self.lines = Lines(self.sites)
        self.log = Log(plan.folder, plan.key, self._evidence)
        self.meter = Meter()
        self.reach = {claim.index: Reach() for claim in plan.claims}
        self.forwards = Forwards(self.sites)
        self.keeps = [Keep(claim, self.forwards) for claim in plan.claims if claim.rule == "undetached-accumulation"]
        self.reads = {claim.index: Reads(claim) for claim in plan.claims if claim.rule == "training-under-no-grad"}
        self.changes = [Change(claim) for claim in plan.claims if claim.rule.startswith("inplace-")]
        self.rules = {claim.rule for claim in plan.claims}
        self.hooks = Hooks()
        self._local = threading.local()
        self._reset()

    @classmethod
    def from_folder(cls, folder: str) -> Probe:
        return cls(Plan.read(folder))

    def _reset(self) -> None:
        """Nothing has been seen yet; a forked child begins here as well."""
        self.pid = os.getpid()
        self.steps = 0
        self.ledgers = Ledgers()
        self.backwards: dict[int, Backwards] = {}
        self.graphs = Count()
        self.retention = Retention()
        self.caches = Caches()
        self.anomaly = Anomaly()
        self.timeline = Timeline()
        self.losses = Losses()
        self.error = self.trouble = ""
        self.finished = False
        self.budget = Budget(self.plan, self.log.write)

    # -- installing

    def install(self) -> None:
        """Put the hooks in place."""
        hooks = self.hooks
        hooks.replace(torch.autograd, "backward", self._backward_hook)
        hooks.replace(Optimizer, "add_param_group", self._group_hook)
        hooks.replace(torch, "set_anomaly_enabled", self._anomaly_hook)
        for module in (torch.cuda, torch.cuda.memory):
            hooks.replace(module, "empty_cache", self._cache_hook)
        hooks.replace(os, "_exit", self._exit_hook)
        if "retain-graph-in-loop" in self.rules:
            hooks.replace(torch.autograd, "grad", self._grad_hook)
        if self.rules & {"training-under-no-grad", "undetached-accumulation"}:
            hooks.replace(torch.nn.Module, "__call__", self.forwards.call, traceable=True)
        hooks.around_steps(self._before_step, self._after_step)
        self._watch_lines()
        atexit.register(self._finish)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self.log.pause, after_in_parent=self._in_parent, after_in_child=self._in_child)

    def _watch_lines(self) -> None:
        for claim in self.plan.claims:
            self.lines.add(Watch(claim.file, claim.reach, self.reach[claim.index]))
            for block in claim.blocks:
                self.lines.add(Watch(claim.file, block, self.reads[claim.index], patience=_PATIENCE))
        for keep in self.keeps:
            self.lines.add(Watch(keep.claim.file, keep.claim.statement, _Entering(keep)))
        for change in self.changes:
            self.lines.add(Watch(change.claim.file, change.claim.statement, change, exact=True))
        self.lines.start()

    def _in_parent(self) -> None:
        if self.backwards or self.steps:
            self.log.start()

    def _in_child(self) -> None:
        self.log.forked()
        self._reset()

    def _exit_hook(self, original: Any, status: int) -> None:
        self._finish()
        original(status)

    def _finish(self) -> None:
        """The process ends: what is still to be had is written down."""
        if os.getpid() != self.pid:
            return
        error = getattr(sys, "last_value", None)
        if error is not None and not isinstance(error, SystemExit):
            self.error = f"{type(error).__name__}: {error}"[:500]
        self.finished = True
        self.log.pause()
        self.log.write()

    # -- backward

    def _backward_hook(self, original: Any, tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(self._local, "in_backward", False):  # a backward inside a backward, as in checkpointing
            return original(tensors, *args, **kwargs)
        site = self.sites.here()
        self._before_backward(tensors, site, _retains(args, kwargs))
        self._local.in_backward = True
        try:
            result = original(tensors, *args, **kwargs)
        except Exception as error:
            self._backward_failed(tensors, site, error)
            raise
        finally:
            self._local.in_backward = False
        self._after_backward(site)
        if not self.ledgers.of_optimizers:  # without an optimizer each backward counts as a step
            self._end_step(self.ledgers.manual.ledger)
            self.budget.check(self.steps)
        return result

    def _begin(self) -> None:
        """Something happens: from now on evidence is written, and the clock runs."""
        self.log.start()
        self.budget.start()

    @_contained
    def _before_backward(self, tensors: Any, site: int, retains: bool) -> None:
        self._begin()
        backwards = self.backwards.setdefault(site, Backwards())
        backwards.count += 1
        backwards.retained += retains
        roots = tensors_in(tensors)
        for root in roots:
            if root.grad_fn is not None and KEY not in root.grad_fn.metadata:
                root.grad_fn.metadata[KEY] = Root(self.graphs)
        if self.plan.compared:
            self.losses.add(roots)
        self.anomaly.before_backward()
        self.ledgers.before_backward(roots, site, self.steps)
        if "retain-graph-in-loop" in self.rules:
            self.retention.meet(roots, retains, site)

    @_contained
    def _after_backward(self, site: int) -> None:
        self.ledgers.after_backward(site)
        for keep in self.keeps:
            keep.backward_passed()
        for change in self.changes:
            change.backward_passed(self.steps)

    @_contained
    def _backward_failed(self, tensors: Any, site: int, error: Exception) -> None:
        backwards = self.backwards[site]
        if not backwards.errors:
            backwards.first_error = self.steps
        if len(backwards.errors) < _ERRORS:
            backwards.errors[str(error)[:300]] += 1
        self.forwards.resolve(self.ledgers.of_optimizers)
        for change in self.changes:
            change.backward_failed(tensors_in(tensors), error, self.steps)

    def _grad_hook(self, original: Any, outputs: Any, *args: Any, **kwargs: Any) -> Any:
        self._meet(outputs)
        return original(outputs, *args, **kwargs)

    @_contained
    def _meet(self, outputs: Any) -> None:
        self.retention.meet(tensors_in(outputs), False, 0)

    # -- steps

    def _group_hook(self, original: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(optimizer, *args, **kwargs)
        self._add(optimizer)
        return result

    @_contained
    def _add(self, optimizer: Any) -> None:
        self.ledgers.add(optimizer)

    def _stepping(self) -> list[Any]:
        """The optimizers whose `step` is running in this thread, outermost first."""
        stack: list[Any] | None = getattr(self._local, "stepping", None)
        if stack is None:
            stack = self._local.stepping = []
        return stack

    @_contained
    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        self._begin()
        stepping = self._stepping()
        stepping.append(optimizer)
        if stepping.count(optimizer) > 1:
            return None
        site = self.sites.here()
        ledger = self.ledgers.of(optimizer)
        closure = kwargs.get("closure") if "closure" in kwargs else (args[1] if len(args) > 1 else None)
        ledger.before_step(site, self.steps, self._is_measured(), callable(closure))
        return self._with_closure(ledger, site, closure, args, kwargs) if callable(closure) else None

    def _is_measured(self) -> bool:
        """Whether this step is one at which more is looked at."""
        return self.steps < _MEASURED or self.steps % _MEASURED_EVERY == 0

    def _with_closure(self, ledger: Ledger, site: int, closure: Any, args: Any, kwargs: Any) -> Any:
        """Arguments in which the closure also tells of each evaluation."""

        @functools.wraps(closure)
        def evaluated(*inner: Any, **keywords: Any) -> Any:
            result = closure(*inner, **keywords)
            self._evaluated(ledger, site)
            return result

        if "closure" in kwargs:
            return args, {**kwargs, "closure": evaluated}
        return (args[0], evaluated, *args[2:]), kwargs

    @_contained
    def _evaluated(self, ledger: Ledger, site: int) -> None:
        ledger.consume(site, self.steps)
        ledger.use()

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._count_step(optimizer)
        if not self._stepping():
            self.budget.check(self.steps)

    @_contained
    def _count_step(self, optimizer: Any) -> None:
        stepping = self._stepping()
        while stepping and stepping.pop() is not optimizer:
            pass  # its step raised: no hook told of its end
        if optimizer in stepping:
            return
        ledger = self.ledgers.known(optimizer)
        self.ledgers.stepped(ledger)
        if not stepping:
            self._end_step(ledger)

    @_contained
    def _end_step(self, ledger: Ledger) -> None:
        record = self.meter.step()
        if self._is_measured():
            self.forwards.resolve(self.ledgers.of_optimizers)
            for read in self.reads.values():
                read.resolve(self.ledgers)
        self.steps += 1
        emptied, self.caches.seconds = self.caches.seconds, 0.0
        near = self.budget.is_near(self.steps, _ALTERNATING)
        record["anomaly"] = self.anomaly.step(record["ms"], near)
        record["graphs"] = self.graphs.alive
        if emptied:
            record["emptied"] = emptied * 1000
        if ledger.norm is not None:
            record["norm"], record["fresh"] = ledger.norm, ledger.fresh
            ledger.norm = None
        self.losses.end_step(record)
        self.timeline.add(self.steps, record)

    # -- switches

    def _anomaly_hook(self, original: Any, mode: bool, *args: Any, **kwargs: Any) -> None:
        self.anomaly.call(original, self.sites.here(), bool(mode), args, kwargs)

    def _cache_hook(self, original: Any) -> None:
        self.caches.call(original, self.sites.here())

    # -- evidence

    def _evidence(self) -> dict[str, Any] | None:
        if os.getpid() != self.pid:
            return None
        return evidence(self)

    def environment(self) -> dict[str, Any]:
        """What this process is."""
        return {
            "pid": self.pid,
            "rank": os.environ.get("RANK", ""),
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "device": self.meter.device,
            "compiled": _compiled_graphs(),
        }


class _Entering:
    """A watcher that only wants to know of the beginning of a line."""

    def __init__(self, keep: Keep) -> None:
        self.enter = keep.enter

    def leave(self, frame: Any, error: BaseException | None) -> bool:
        return True


def _compiled_graphs() -> int:
    """How many graphs `torch.compile` has made; their lines do not run any more."""
    utils = sys.modules.get("torch._dynamo.utils")
    counters = getattr(utils, "counters", {})
    return int(counters["stats"]["unique_graphs"]) if "stats" in counters else 0


def _retains(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a backward was asked to retain its graph: the third argument of `torch.autograd.backward`."""
    return (kwargs.get("retain_graph") if "retain_graph" in kwargs else (args[1] if len(args) > 1 else None)) is True
