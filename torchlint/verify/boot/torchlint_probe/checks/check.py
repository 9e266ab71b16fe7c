"""The base class of a check. It observes a run and reports problems with their lines. It needs no finding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import torch

    from torchlint_probe.checks._names import Models
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.lines import Watch
    from torchlint_probe.probe import Probe


@dataclass
class Sighting:
    """A problem: the number of its site, a sentence, numbers, and the step at which it began.

    With `advice`, the user's next action, it is a suspicion that this run could not decide.
    """

    site: int
    message: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    first_step: int = -1
    """-1 where no step is known."""
    advice: str = ""


Operated = Callable[[Any, Any, Any, Any], None]
"""Receives a call of an operator: the function, its arguments and keywords, and its result."""


class Check:
    """One question to a run. The module's docstring states the question, when the answer is yes, and the source."""

    name: ClassVar[str]
    code: ClassVar[str]
    """`TW` and three digits; the rule's code if a rule reports the same."""
    is_on: ClassVar[bool] = True
    """Whether the check is on by default: only if it has reported no correct program."""

    uses_lines: ClassVar[bool] = False
    """Whether the check needs the lines at which graph nodes were made."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe

    @property
    def models(self) -> Models:
        """The outermost modules that were called."""
        return self.probe.checks.models

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        """Put the hooks in place that the check needs."""

    def watches(self) -> Sequence[Watch]:
        """The lines that the check observes."""
        return ()

    def operators(self) -> Mapping[Any, Operated]:
        """The functions of torch whose calls by the program's Python code the check observes."""
        return {}

    def called(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        """An outermost call of a module has ended."""

    def passed_by(self, args: Any) -> None:
        """A routine call of a module has ended, in a step that is only counted."""

    def before_backward(self, roots: list[torch.Tensor], site: int) -> None:
        """A backward is about to run."""

    def before_unseen_backward(self, roots: list[torch.Tensor]) -> None:
        """A backward is about to run, in a step that is only counted."""

    def after_backward(self, site: int) -> None:
        """A backward has ended without an error."""

    def backward_failed(self, roots: list[torch.Tensor], error: Exception, site: int) -> None:
        """A backward has raised."""

    def before_step(self, optimizer: Any) -> None:
        """An optimizer is about to step."""

    def after_step(self, optimizer: Any) -> None:
        """An optimizer has stepped."""

    def died(self, error: BaseException) -> None:
        """The program ends with an error."""

    def is_asked(self, rule: str) -> bool:
        """Whether there are findings of a rule. If so, it is worth the time to refute them."""
        return any(claim.rule == rule for claim in self.probe.plan.claims)

    def acquittals(self) -> Iterator[Sighting]:
        """Lines that the run has shown to be correct."""
        return iter(())

    @property
    def standing(self) -> dict[str, Any] | None:
        """The collective calls of this rank, for the launcher; None where the check does not follow them."""
        return None

    def sightings(self) -> Iterator[Sighting]:
        """The problems so far; called whenever evidence is written."""
        return iter(())


class Telling:
    """Wraps a method: the check receives its object after the call."""

    def __init__(self, probe: Probe, check: type[Check], event: str) -> None:
        self._probe = probe
        self._check = check
        self._event = event

    def __call__(self, original: Callable[..., Any], owner: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(owner, *args, **kwargs)
        self._probe.checks.tell_one(self._check, self._event, owner)
        return result
