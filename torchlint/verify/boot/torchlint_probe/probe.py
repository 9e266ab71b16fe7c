"""Hooks into torch, and what they tell the observers."""

from __future__ import annotations

import atexit
import functools
import os
import platform
import sys
import threading
import time
from collections import Counter
from typing import Any

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from torchlint_probe.budget import Budget
from torchlint_probe.forwards import Forwards
from torchlint_probe.graphs import KEY, Count, Root, leaves, nodes, tensors_in
from torchlint_probe.inplace import Change
from torchlint_probe.keeping import Keep
from torchlint_probe.ledger import Ledger
from torchlint_probe.lines import Lines, Watch
from torchlint_probe.log import Log
from torchlint_probe.manual import ManualUpdates
from torchlint_probe.memory import Meter
from torchlint_probe.plan import Plan
from torchlint_probe.reach import Reach
from torchlint_probe.retention import Retention
from torchlint_probe.sites import Sites
from torchlint_probe.snapshot import evidence
from torchlint_probe.upkeep import Anomaly, Caches

_MEASURED = 10
"""Gradient norms are taken at the first so many steps, then at one in `_MEASURED_EVERY`."""
_MEASURED_EVERY = 10
_ALTERNATING = 10
"""On the last so many steps before the stop, anomaly detection alternates."""
_LEAF_WALKS = 3
_SERIES = 2_000


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
        self.keeps = [Keep(claim) for claim in plan.claims if claim.rule == "undetached-accumulation"]
        self.changes = [Change(claim) for claim in plan.claims if claim.rule.startswith("inplace-")]
        self.forwards = Forwards(self.sites)
        self._local = threading.local()
        self._reset()

    @classmethod
    def from_folder(cls, folder: str) -> Probe:
        return cls(Plan.read(folder))

    def _reset(self) -> None:
        """Nothing has been seen yet; a forked child begins here as well."""
        self.pid = os.getpid()
        self.steps = 0
        self.ledgers: list[Ledger] = []
        self._by_optimizer: dict[int, Ledger] = {}
        self.manual = ManualUpdates()
        self.backwards: dict[int, Backwards] = {}
        self.graphs = Count()
        self.retention = Retention()
        self.caches = Caches()
        self.anomaly = Anomaly()
        self.series: list[dict[str, Any]] = []
        self.stride = 1
        self.error = ""
        self.started = time.time()
        self.finished = False
        self.budget = Budget(self.plan, self.log.write)

    @property
    def backward_count(self) -> int:
        return sum(backwards.count for backwards in self.backwards.values())

    def _rules(self) -> set[str]:
        return {claim.rule for claim in self.plan.claims}

    # -- installing

    def install(self) -> None:
        """Put the hooks in place."""
        self._hooks: dict[str, Any] = {}
        self._wrap(torch.autograd, "backward", self._backward_hook)
        self._wrap(Optimizer, "add_param_group", self._group_hook)
        self._wrap(torch, "set_anomaly_enabled", self._anomaly_hook)
        for module in (torch.cuda, torch.cuda.memory):
            self._wrap(module, "empty_cache", self._cache_hook)
        self._wrap(os, "_exit", self._exit_hook)
        if "retain-graph-in-loop" in self._rules():
            self._wrap(torch.autograd, "grad", self._grad_hook)
        if "training-under-no-grad" in self._rules():
            torch.nn.Module.__call__ = self.forwards.wrap(torch.nn.Module.__call__)
        self._pre = register_optimizer_step_pre_hook(self._before_step)
        self._post = register_optimizer_step_post_hook(self._after_step)
        self._watch_lines()
        atexit.register(self._at_exit)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self.log.pause, after_in_parent=self._in_parent, after_in_child=self._in_child)
        if os.environ.get("RANK"):
            self.log.start()

    def _wrap(self, owner: Any, name: str, hook: Any) -> None:
        """Replace a function by one that calls `hook` with the original first."""
        original = getattr(owner, name)
        wrapper = functools.wraps(original)(functools.partial(hook, original))
        if owner is Optimizer:

            def method(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
                return hook(original, optimizer, *args, **kwargs)

            wrapper = functools.wraps(original)(method)
        setattr(owner, name, wrapper)

    def hide_from_dynamo(self, dynamo: Any) -> None:
        """What a compiled step can reach must not be traced into its graph."""
        disable = functools.partial(dynamo.disable, recursive=True)
        self._pre.remove()
        self._post.remove()
        self._pre = register_optimizer_step_pre_hook(disable(self._before_step))
        self._post = register_optimizer_step_post_hook(disable(self._after_step))
        for owner, name in ((torch.autograd, "backward"), (torch.autograd, "grad"), (torch, "set_anomaly_enabled")):
            current = getattr(owner, name)
            if isinstance(current, functools.partial):
                setattr(owner, name, functools.wraps(current.args[0])(disable(_plain(current))))

    def _watch_lines(self) -> None:
        for claim in self.plan.claims:
            self.lines.add(Watch(claim.file, claim.reach, self.reach[claim.index], False))
        for keep in self.keeps:
            self.lines.add(Watch(keep.claim.file, keep.claim.statement, _Entering(keep), False))
        for change in self.changes:
            self.lines.add(Watch(change.claim.file, change.claim.statement, change, True))
        self.lines.start()

    def _in_parent(self) -> None:
        if self.backwards or self.steps:
            self.log.start()

    def _in_child(self) -> None:
        self.log.forked()
        self._reset()

    def _at_exit(self) -> None:
        self._finish()

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
        depth = getattr(self._local, "depth", 0)
        if depth:
            return original(tensors, *args, **kwargs)
        self._local.depth = 1
        try:
            site = self.sites.here()
            self._before_backward(tensors, site, _retains(args, kwargs))
            try:
                result = original(tensors, *args, **kwargs)
            except Exception as error:
                self._backward_failed(tensors, site, error)
                raise
            self._after_backward(site)
        finally:
            self._local.depth = 0
        if not self.ledgers:
            self._step_by_hand()
        return result

    def _begin(self) -> None:
        """Something happens: from now on evidence is written, and the clock runs."""
        self.log.start()
        self.budget.start()

    def _before_backward(self, tensors: Any, site: int, retains: bool) -> None:
        self._begin()
        backwards = self.backwards.setdefault(site, Backwards())
        backwards.count += 1
        backwards.retained += retains
        roots = tensors_in(tensors)
        for root in roots:
            if root.grad_fn is not None and KEY not in root.grad_fn.metadata:
                root.grad_fn.metadata[KEY] = Root(self.graphs)
        self.anomaly.before_backward()
        with torch.no_grad():
            for ledger in self._living():
                ledger.before_backward()
            if self.backward_count <= _LEAF_WALKS:
                self._find_leaves(roots)
            self.manual.before_backward(site, self.steps)
        if "retain-graph-in-loop" in self._rules_asked:
            self.retention.meet(roots, retains, site)

    @functools.cached_property
    def _rules_asked(self) -> set[str]:
        return self._rules()

    def _find_leaves(self, roots: list[torch.Tensor]) -> None:
        owned = {id(slot.parameter()) for ledger in self.ledgers for slot in ledger.slots}
        self.manual.take([leaf for leaf in leaves(nodes(roots)) if id(leaf) not in owned])

    def _after_backward(self, site: int) -> None:
        with torch.no_grad():
            fed = [ledger for ledger in self._living() if ledger.after_backward(site)]
            if len(fed) == 1:
                fed[0].fed_alone()
            self.manual.after_backward(site)
        for change in self.changes:
            change.backward_passed(self.steps)

    def _backward_failed(self, tensors: Any, site: int, error: Exception) -> None:
        backwards = self.backwards[site]
        if not backwards.errors:
            backwards.first_error = self.steps
        if len(backwards.errors) < 10:
            backwards.errors[str(error)[:300]] += 1
        self.forwards.resolve(self.ledgers)
        for change in self.changes:
            change.backward_failed(tensors_in(tensors), error, self.steps)

    def _grad_hook(self, original: Any, outputs: Any, *args: Any, **kwargs: Any) -> Any:
        self.retention.meet(tensors_in(outputs), False, 0)
        return original(outputs, *args, **kwargs)

    def _step_by_hand(self) -> None:
        """A program without an optimizer: each backward counts as a step."""
        self._end_step(self.manual.ledger)

    # -- steps

    def _living(self) -> list[Ledger]:
        return [ledger for ledger in self.ledgers if ledger.alive]

    def _ledger(self, optimizer: Any) -> Ledger:
        ledger = self._by_optimizer.get(id(optimizer))
        if ledger is None or ledger.owner is None or ledger.owner() is not optimizer:
            ledger = Ledger(optimizer, type(optimizer).__name__, len(self.ledgers))
            self._by_optimizer[id(optimizer)] = ledger
            self.ledgers.append(ledger)
        ledger.watch([parameter for group in optimizer.param_groups for parameter in group["params"]])
        return ledger

    def _group_hook(self, original: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(optimizer, *args, **kwargs)
        self.manual.release(self._ledger(optimizer).slots)
        return result

    def _stepping(self) -> list[Any]:
        """The optimizers whose `step` is running in this thread, outermost first."""
        stack: list[Any] | None = getattr(self._local, "stepping", None)
        if stack is None:
            stack = self._local.stepping = []
        return stack

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        self._begin()
        stepping = self._stepping()
        stepping.append(optimizer)
        if stepping.count(optimizer) > 1:
            return None
        site = self.sites.here()
        ledger = self._ledger(optimizer)
        closure = kwargs.get("closure") if "closure" in kwargs else (args[1] if len(args) > 1 else None)
        with torch.no_grad():
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
            with torch.no_grad():
                ledger.consume(site, self.steps)
                ledger.use()
            return result

        if "closure" in kwargs:
            return args, {**kwargs, "closure": evaluated}
        return (args[0], evaluated, *args[2:]), kwargs

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        stepping = self._stepping()
        while stepping and stepping.pop() is not optimizer:
            pass  # its step raised: no hook told of its end
        if optimizer in stepping:
            return
        ledger = self._ledger(optimizer)
        for other in self.ledgers:
            if other is not ledger:
                other.spend(ledger)
        with torch.no_grad():
            ledger.after_step()
        if not stepping:
            self._end_step(ledger)

    def _end_step(self, ledger: Ledger) -> None:
        record = self.meter.step()
        if self._is_measured():
            self.forwards.resolve(self.ledgers)
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
        if self.steps % self.stride == 0:
            self.series.append({"step": self.steps, **record})
            if len(self.series) >= _SERIES:
                self.series = self.series[1::2]
                self.stride *= 2
        self.budget.check(self.steps)

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


def _plain(hook: Any) -> Any:
    """A function around a partial, since `torch._dynamo.disable` wants functions."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return hook(*args, **kwargs)

    return call
