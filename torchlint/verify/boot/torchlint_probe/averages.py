"""Is a change of a leaf that no optimizer owns a manual step, or an average with another parameter?

The weights of a teacher, a target network, or a moving average follow others by `t += share * (s - t)`,
independent of their gradients. A copy has a share of one. A manual step goes against the gradient.
"""

from __future__ import annotations

import torch

from torchlint_probe.values import norm

SAMPLE = 64
"""The number of values of a leaf that are compared."""
SHARE = 1.001
"""The largest share of an average: a copy."""
_NOISE = 1e-3
"""The relative difference of a change from one that is computed in another order."""
_ROUNDING = 8.0
"""Rounding errors, in units of the last place, that a change may have."""
_DOWNHILL = 0.2
"""The minimum cosine of a change with the negative gradient for a step."""


def sample(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of the first values."""
    return tensor.detach().reshape(-1)[:SAMPLE].clone()


def is_average(before: torch.Tensor, after: torch.Tensor, sources: list[torch.Tensor], most: float = SHARE) -> bool:
    """Whether a leaf moved a share of the way to one of these, and `most` of it. A single value cannot decide this."""
    if before.numel() < 2 or not sources or not before.is_floating_point():
        return False
    change = (after - before).double()
    ways = torch.stack(sources).double() - before.double()
    lengths = (ways * ways).sum(1)
    shares = (ways @ change) / lengths.clamp_min(1e-300)
    left = norm(change - shares[:, None] * ways, dim=1)
    rounding = (
        torch.finfo(before.dtype).eps * _ROUNDING * float(norm(torch.maximum(before.abs(), after.abs()).double()))
    )
    fits = (left <= _NOISE * norm(change) + rounding) & (shares > 0) & (shares <= most)
    is_seen = norm(change) > 4 * rounding  # a change that is only rounding fits everything
    return bool((fits & is_seen).any())


def goes_downhill(changes: list[torch.Tensor], gradients: list[torch.Tensor]) -> bool:
    """Whether changes go against their gradients, taken together."""
    change, gradient = torch.cat(changes).double(), torch.cat(gradients).double()
    size = norm(change) * norm(gradient)
    return bool(-(change @ gradient) > _DOWNHILL * size)
