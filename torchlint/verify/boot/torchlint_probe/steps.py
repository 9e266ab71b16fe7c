"""The hooks before and after the steps of optimizers."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from torchlint_probe.contained import contained

if TYPE_CHECKING:
    from torchlint_probe.ledger import Ledger
    from torchlint_probe.probe import Probe


class StepHooks:
    """An optimizer whose `step` calls the one of its base class is heard of twice, so depth is counted."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe

    @property
    def trouble_of(self) -> Probe:
        return self._probe

    @contained
    def before(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        probe = self._probe
        stepping = probe.local.stepping
        stepping.append(optimizer)
        if probe.is_quiet or stepping.count(optimizer) > 1:
            return None
        probe.begin()
        closure = kwargs.get("closure") if kwargs and "closure" in kwargs else (args[1] if len(args) > 1 else None)
        evaluates = callable(closure)
        site = probe.sites.here()
        ledger = probe.ledgers.before_step(optimizer, site, probe.steps, probe.is_measured, evaluates)
        return self._with_closure(ledger, site, closure, args, kwargs) if evaluates else None

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

    @contained
    def _evaluated(self, ledger: Ledger, site: int) -> None:
        self._probe.ledgers.evaluated(ledger, site, self._probe.steps)

    def after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._count(optimizer)
        if not self._probe.local.stepping:
            self._probe.budget.check(self._probe.steps)

    @contained
    def _count(self, optimizer: Any) -> None:
        probe = self._probe
        stepping = probe.local.stepping
        while stepping and stepping.pop() is not optimizer:
            pass  # its step raised: no hook told of its end
        if optimizer in stepping:
            return
        ledger = probe.ledgers.pass_by(optimizer) if probe.is_quiet else probe.ledgers.stepped(optimizer)
        if not stepping:
            probe.end_step(ledger)
