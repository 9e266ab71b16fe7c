"""Random number generators of Python, numpy and PyTorch: what seeds them, and what makes one."""

from __future__ import annotations

SEEDING = frozenset(
    (
        "random.seed numpy.random.seed torch.manual_seed torch.random.manual_seed torch.cuda.manual_seed "
        "torch.cuda.manual_seed_all torch.cuda.random.manual_seed torch.cuda.random.manual_seed_all"
    ).split()
)
"""What seeds a generator of the process, with its first argument."""
SEEDING_WITHOUT_RESULT = SEEDING - {"torch.manual_seed", "torch.random.manual_seed"}
"""Those that return None; the others return a generator."""
GENERATORS = frozenset(
    ("random.Random numpy.random.default_rng numpy.random.RandomState numpy.random.Generator torch.Generator").split()
)
"""What makes a generator of its own."""
