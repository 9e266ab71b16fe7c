"""The backward of a custom `torch.autograd.Function` does not return the gradient of its forward.

At the first two calls of each such function, the check compares its derivative in three random directions with finite
differences of the forward, on 64-bit copies of the inputs. It reports a problem if the two differ by more than a
hundredth of the larger one in at least one direction, in both calls.

Not reported if the forward:
- returns its input (gradient reversal, clipping)
- is constant around the input (rounding with a straight-through gradient)
- draws random numbers
- does not accept 64-bit numbers
- has side effects, as far as its code shows them

Source: "Gradient check mechanics" in PyTorch's notes, the fast mode: random directions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from torchlint_probe.checks.check import Check, Sighting
from torchlint_probe.spots import is_harmless_code

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_CALLS = 2
_DIRECTIONS = 3
"""In a single direction a wrong derivative may be correct by chance."""
_STEP = 1e-6
_TOLERANCE = 0.01
_FLAT = 1e-9
_ELEMENTS = 1_000_000


class CustomFunctionGradient(Check):
    """Tries the first calls of each custom function."""

    name = "custom-function-gradient"
    code = "TW302"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._tried: dict[type, int] = {}
        self._wrong: dict[type, list[tuple[float, float]]] = {}
        self._sites: dict[type, int] = {}

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        hooks.listen_to_class(torch.autograd.Function, "apply", _Hook(probe))

    def applied(self, function: Any, args: Any, kwargs: Any) -> None:
        """The program has called a custom function."""
        tried = self._tried.get(function, 0)
        if tried >= _CALLS or kwargs or not torch.is_grad_enabled():
            return
        code = getattr(function.backward, "__code__", None)
        is_users = code is not None and self.probe.sites.file(code) >= 0
        if not is_users or not is_harmless_code(function.forward, function.backward):
            self._tried[function] = _CALLS
            return
        self._tried[function] = tried + 1
        last = max((line for _, _, line in code.co_lines() if line), default=code.co_firstlineno)
        self._sites.setdefault(function, self.probe.sites.place(self.probe.sites.file(code), last))
        tries = (_derivatives(function, args, seed) for seed in range(_DIRECTIONS))
        wrong = next((pair for pair in tries if pair is not None and _differ(*pair)), None)
        if wrong is not None:
            self._wrong.setdefault(function, []).append(wrong)

    def sightings(self) -> Iterator[Sighting]:
        for function, wrong in list(self._wrong.items()):
            if len(wrong) == _CALLS:
                numeric, analytic = wrong[0]
                message = (
                    f"the backward of `{function.__name__}` returns a derivative of {analytic:.4g} in a direction, but "
                    f"the derivative of its forward is {numeric:.4g}"
                )
                yield Sighting(self._sites[function], message, {"backward": analytic, "forward": numeric}, 0)


class _Hook:
    """Wraps `Function.apply`: the trial comes after the program's call."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._is_trying = False

    def __call__(self, original: Callable[..., Any], function: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if not self._is_trying and self._probe.looking:
            self._is_trying = True
            try:
                self._probe.checks.tell_one(CustomFunctionGradient, "applied", function, args, kwargs)
            finally:
                self._is_trying = False
        return result


def _derivatives(function: Any, args: Any, seed: int) -> tuple[float, float] | None:
    """The derivative of a random sum of the results in a random direction: by differences, and by the backward."""
    varied = [index for index, item in enumerate(args) if _is_varied(item)]
    total = sum(args[index].numel() for index in varied)
    if not varied or total > _ELEMENTS:
        return None
    generator = torch.Generator().manual_seed(seed)
    state = torch.get_rng_state()
    try:
        with torch.enable_grad():
            return _compared(function, list(args), varied, generator)
    except Exception:  # it accepts or returns no 64-bit numbers
        return None
    finally:
        torch.set_rng_state(state)


def _is_varied(item: Any) -> bool:
    return isinstance(item, torch.Tensor) and item.requires_grad and item.is_floating_point()


def _compared(
    function: Any, args: list[Any], varied: list[int], generator: torch.Generator
) -> tuple[float, float] | None:
    fixed = [
        item.detach().double() if isinstance(item, torch.Tensor) and item.is_floating_point() else item for item in args
    ]
    directions = {index: _random_like(fixed[index], generator) for index in varied}

    def moved(by: float) -> list[Any]:
        return [item + by * directions[index] if index in directions else item for index, item in enumerate(fixed)]

    inputs = [item.clone().requires_grad_() if index in directions else item for index, item in enumerate(fixed)]
    output = function.apply(*inputs)
    weights = _random_like(output, generator)
    before, after, here = (float((function.apply(*moved(by)).detach() * weights).sum()) for by in (-_STEP, _STEP, 0.0))
    is_identity = output.shape == fixed[varied[0]].shape and bool(torch.equal(output.detach(), fixed[varied[0]]))
    if is_identity or here != float((output.detach() * weights).sum()):
        return None
    gradients = torch.autograd.grad((output * weights).sum(), [inputs[index] for index in varied], allow_unused=True)
    analytic = sum(
        float((gradient * directions[index]).sum())
        for index, gradient in zip(varied, gradients, strict=True)
        if gradient is not None
    )
    return (after - before) / (2 * _STEP), analytic


def _random_like(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(tensor.shape, generator=generator, dtype=torch.float64).to(tensor.device)


def _differ(numeric: float, analytic: float) -> bool:
    return abs(numeric) > _FLAT and abs(numeric - analytic) > _TOLERANCE * max(abs(numeric), abs(analytic))
