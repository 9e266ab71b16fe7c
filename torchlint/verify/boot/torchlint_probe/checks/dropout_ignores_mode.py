"""Dropout is on although the module that calls it is in eval mode.

For each call of `dropout`, and of `scaled_dot_product_attention` with dropout, the check reads the mode of the
innermost module that is running. It reports a problem if this module was in eval mode in at least three calls of a
line. `F.dropout(x)` without `training=self.training` looks like this. If dropout layers are in training mode on
purpose, as in Monte Carlo dropout, the innermost module is the dropout layer, so nothing is reported.

Source: `torch.nn.functional.dropout` and `scaled_dot_product_attention` in PyTorch's documentation: the argument says
whether to drop, not the mode.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from torchlint_probe.checks.check import Check, Sighting

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_CALLS = 3


class DropoutIgnoresMode(Check):
    """Compares modes with arguments. It includes calls without gradients, which operator modes do not observe."""

    name = "dropout-ignores-mode"
    code = "TL310"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._calls: Counter[int] = Counter()

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        hooks.listen(functional, "dropout", _Hook(probe, _drops))
        hooks.listen(functional, "scaled_dot_product_attention", _Hook(probe, _drops_attention))
        # TorchScript knows built-in functions by their identity.
        torch.jit._builtins._register_builtin(
            functional.scaled_dot_product_attention, "aten::scaled_dot_product_attention"
        )

    def called_to_drop(self, is_on: Callable[[Any, Any], bool], args: Any, kwargs: Any) -> None:
        """The program has called a function that may drop."""
        part = self.probe.forwards.inside.part
        if part is not None and not part.training and is_on(args, kwargs):
            self._calls[self.probe.sites.here()] += 1

    def sightings(self) -> Iterator[Sighting]:
        for site, calls in list(self._calls.items()):
            if calls >= _CALLS:
                yield Sighting(site, f"dropout is on in {calls:,} calls in eval mode", {"calls": calls})


def _drops(args: Any, kwargs: Any) -> bool:
    share = kwargs.get("p", args[1] if len(args) > 1 else 0.5)
    return bool(share and kwargs.get("training", args[2] if len(args) > 2 else True))


def _drops_attention(args: Any, kwargs: Any) -> bool:
    return bool(kwargs.get("dropout_p", args[4] if len(args) > 4 else 0.0))


class _Hook:
    """Wraps a function that may drop."""

    def __init__(self, probe: Probe, drops: Callable[[Any, Any], bool]) -> None:
        self._probe = probe
        self._drops = drops

    def __call__(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if self._probe.looking:
            self._probe.checks.tell_one(DropoutIgnoresMode, "called_to_drop", self._drops, args, kwargs)
        return result
