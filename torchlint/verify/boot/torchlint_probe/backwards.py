"""The hooks around `torch.autograd.backward` and `grad`, and the record of the backwards from one site."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from torchlint_probe.contained import contained
from torchlint_probe.graphs import tensors_in
from torchlint_probe.hooks import Hook

if TYPE_CHECKING:
    import torch


_ERRORS = 10
"""The maximum number of different errors per site."""


class Backwards:
    """Backwards from one site."""

    def __init__(self) -> None:
        self.count = 0
        self.retained = 0
        self.errors: Counter[str] = Counter()
        self.first_error = 0

    def fail(self, error: Exception, step: int) -> None:
        if not self.errors:
            self.first_error = step
        if len(self.errors) < _ERRORS:
            self.errors[str(error)[:300]] += 1


class BackwardHook(Hook):
    """Calls the observers before and after each backward of the program. A nested backward is part of the outer one."""

    def __call__(self, original: Any, tensors: Any, *args: Any, **kwargs: Any) -> Any:
        probe = self._probe
        local = probe.local
        if local.in_backward:  # a backward inside a backward, as in checkpointing
            return original(tensors, *args, **kwargs)
        is_followed = probe.lines.switch(False)
        site = 0
        if probe.is_quiet:
            self._before_quietly(tensors)
        else:
            site = probe.sites.here()
            self._before(tensors, site, _retains(args, kwargs))
        local.in_backward = True
        if not probe.is_quiet:
            probe.lines.switch(is_followed)  # hooks and functions of the program may run
        try:
            result = original(tensors, *args, **kwargs)
        except BaseException as error:
            self._failed(tensors, site or probe.sites.here(), error)
            raise
        finally:
            local.in_backward = False
        probe.lines.switch(False)
        try:
            self._end(site)
        finally:
            probe.lines.switch(is_followed)
        return result

    def _end(self, site: int) -> None:
        """A backward has ended without an error."""
        probe = self._probe
        self._after(site)
        if not probe.ledgers.of_optimizers:  # without an optimizer each backward counts as a step
            probe.end_step(probe.ledgers.manual)
            probe.budget.check(probe.steps)

    @contained
    def _before(self, tensors: Any, site: int, retains: bool) -> None:
        probe = self._probe
        probe.begin()
        backwards = self._of(site)
        backwards.count += 1
        backwards.retained += retains
        probe.before_backward(tensors_in(tensors), site, retains)

    @contained
    def _before_quietly(self, tensors: Any) -> None:
        probe = self._probe
        probe.ledgers.fly()
        probe.before_any_backward(tensors)
        probe.checks.before_unseen_backward(tensors_in(tensors))

    @contained
    def _after(self, site: int) -> None:
        self._probe.after_backward(site)

    @contained
    def _failed(self, tensors: Any, site: int, error: BaseException) -> None:
        self._probe.ledgers.after_backward(False)
        if isinstance(error, Exception):
            self._of(site).fail(error, self._probe.steps)
            self._probe.note_error(error)
            self._probe.backward_failed(tensors_in(tensors), error, site)

    def _of(self, site: int) -> Backwards:
        backwards = self._probe.backwards
        return backwards.get(site) or backwards.setdefault(site, Backwards())


def _retains(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a backward was asked to retain its graph: the third argument of `torch.autograd.backward`."""
    return (kwargs.get("retain_graph") if "retain_graph" in kwargs else (args[1] if len(args) > 1 else None)) is True


class GradHook(Hook):
    """Reports each `torch.autograd.grad`, which may use and retain graphs as a backward does."""

    def __call__(self, original: Any, outputs: Any, *args: Any, **kwargs: Any) -> Any:
        if self._probe.is_quiet:
            return original(outputs, *args, **kwargs)
        retained = self._before(tensors_in(outputs), kwargs.get("retain_graph") is True)
        result = original(outputs, *args, **kwargs)
        if retained is not None and kwargs.get("create_graph"):
            self._after(retained, tensors_in(result))
        return result

    @contained
    def _before(self, roots: list[torch.Tensor], retains: bool) -> int | None:
        probe = self._probe
        return probe.retention.meet(roots, retains, probe.sites.here() if retains else 0)

    @contained
    def _after(self, retained: int, results: list[torch.Tensor]) -> None:
        """The graph of the gradients is part of the retained graph."""
        self._probe.retention.extend(retained, results)
