"""The base of observers: counts of observations, and handlers of events."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from torchlint_probe.claim import Claim
from torchlint_probe.contained import contained
from torchlint_probe.lines import Watch
from torchlint_probe.sites import Site

if TYPE_CHECKING:
    import torch

    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

ERRORS = 10
"""The maximum number of different errors per finding."""


class Observer:
    """The observations about one finding. A subclass installs hooks that only its findings need."""

    hears_calls = False
    """Whether it needs to observe calls of modules."""
    is_direct = True
    """Whether the flagged statement itself makes the call that the finding is about, and no function that it calls."""

    def __init__(self, claim: Claim, probe: Probe) -> None:
        self.claim = claim
        self.probe = probe
        self.counts: defaultdict[str, float] = defaultdict(float)
        self.errors: Counter[str] = Counter()
        self.shown = ""

    @property
    def trouble_of(self) -> Probe:
        return self.probe

    @property
    def is_done(self) -> bool:
        """Whether enough calls have been observed."""
        return False

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        """Put the hooks in place that observers of this kind need."""

    def is_in(self, stack: Site) -> bool:
        """Whether the stack is one of the flagged statement, innermost frame first."""
        first, last = self.claim.statement
        frames = stack[:1] if self.is_direct else stack
        return any(file == self.claim.file and first <= line <= last for file, line in frames)

    def watches(self) -> Sequence[Watch]:
        """The lines that it observes."""
        return ()

    def hear(self, module: torch.nn.Module) -> None:
        """An outermost call of a module has ended; called only if `hears_calls` is set."""

    def before_backward(self, roots: list[torch.Tensor]) -> None:
        """An observed backward is about to run."""

    def before_step(self, optimizer: Any, evaluates: bool) -> None:
        """An observed step is about to start; `evaluates` is whether a closure computes its gradients."""

    def after_step(self, optimizer: Any) -> None:
        """A step has ended, observed or not."""

    def settle(self) -> None:
        """The evidence is about to be written."""

    def fail(self, error: BaseException) -> None:
        """Record an error."""
        message = f"{type(error).__name__}: {error}"[:300]
        if message in self.errors or len(self.errors) < ERRORS:
            self.errors[message] += 1

    @property
    def evidence(self) -> dict[str, Any]:
        """As JSON values, which know no NaN."""
        self.settle()
        return {
            "claim": self.claim.index,
            "counts": {name: count for name, count in list(self.counts.items()) if abs(count) < float("inf")},
            "errors": dict(self.errors),
            "shown": self.shown,
        }


class LineObserver(Observer):
    """Observes the flagged statement before and after it runs, for at most `visits` visits."""

    visits = 40

    def watches(self) -> Sequence[Watch]:
        return (Watch(self.claim.file, self.claim.statement, self),)

    def enter(self, frame: FrameType) -> bool:
        self.counts["visits"] += 1
        self._enter(frame)
        return True

    def leave(self, frame: FrameType, error: BaseException | None) -> bool:
        self._leave(frame, error)
        return self.counts["visits"] < self.visits

    @contained
    def _enter(self, frame: FrameType) -> None:
        self.before(frame)

    @contained
    def _leave(self, frame: FrameType, error: BaseException | None) -> None:
        if error is None:
            self.counts["passed"] += 1
        elif isinstance(error, Exception):
            self.fail(error)
        self.after(frame)

    def before(self, frame: FrameType) -> None:
        """The statement is about to run."""

    def after(self, frame: FrameType) -> None:
        """The statement has run, or raised."""
