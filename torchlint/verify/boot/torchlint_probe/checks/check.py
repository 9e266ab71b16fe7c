"""What a check is: hears of a run, and tells what it has seen at which lines, without a finding to begin with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import torch

    from torchlint_probe.checks._names import Models
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe


@dataclass
class Sighting:
    """Something that went wrong: the number of a site, a sentence, numbers, and the step at which it began.

    With `advice`, which says what to do next, it is a suspicion that this run could not decide.
    """

    site: int
    message: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    first_step: int = -1
    """-1 where no step is known."""
    advice: str = ""


Operated = Callable[[Any, Any, Any, Any], None]
"""Told of a call of an operator: the function, its arguments and keywords, and its result."""


class Check:
    """One question to a run. What it asks, when it answers yes, and where that is from says its module's docstring."""

    name: ClassVar[str]
    code: ClassVar[str]
    """`TW` and three digits; that of the rule where a rule asks the same."""
    is_on: ClassVar[bool] = True
    """Whether it asks without being told to: only if no program that is right has been accused."""

    uses_lines: ClassVar[bool] = False
    """Whether it asks for the lines at which the nodes of graphs were made."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe

    @property
    def models(self) -> Models:
        """The outermost modules that were called."""
        return self.probe.checks.models

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        """Put the hooks in place that the check needs."""

    def operators(self) -> Mapping[Any, Operated]:
        """The functions of torch whose calls, by the program's Python code, the check wants to know of."""
        return {}

    def called(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        """An outermost call of a module has ended."""

    def passed_by(self, args: Any) -> None:
        """A routine call of a module has ended, in a step that is just counted."""

    def before_backward(self, roots: list[torch.Tensor], site: int) -> None:
        """A backward is about to run."""

    def before_unseen_backward(self, roots: list[torch.Tensor]) -> None:
        """A backward is about to run, in a step that is just counted."""

    def after_backward(self, site: int) -> None:
        """A backward has ended well."""

    def backward_failed(self, roots: list[torch.Tensor], error: Exception, site: int) -> None:
        """A backward has raised."""

    def before_step(self, optimizer: Any) -> None:
        """An optimizer is about to step."""

    def after_step(self, optimizer: Any) -> None:
        """An optimizer has stepped."""

    def died(self, error: BaseException) -> None:
        """The program ends with an error."""

    def is_asked(self, rule: str) -> bool:
        """Whether there are findings of a rule: then it is worth time to see that one is wrong."""
        return any(claim.rule == rule for claim in self.probe.plan.claims)

    def acquittals(self) -> Iterator[Sighting]:
        """Lines at which the opposite has been seen."""
        return iter(())

    def sightings(self) -> Iterator[Sighting]:
        """What has been seen; asked whenever evidence is written."""
        return iter(())


class Telling:
    """Around a method: the check is told of its object once the method is done."""

    def __init__(self, probe: Probe, check: type[Check], event: str) -> None:
        self._probe = probe
        self._check = check
        self._event = event

    def __call__(self, original: Callable[..., Any], owner: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(owner, *args, **kwargs)
        self._probe.checks.tell_one(self._check, self._event, owner)
        return result
