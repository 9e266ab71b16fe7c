"""The place at which two runs of a program differ that should be equal."""

from __future__ import annotations

from collections.abc import Sequence

from torchlint.verify.evidence import Call, Evidence, Sighting

NAME = "differing-runs"
_OF_DATA = ("tensor", "as_tensor", "asarray", "from_numpy", "frombuffer")
"""Operators that make tensors from other values."""
_RANDOM = ("rand", "dropout", "bernoulli", "multinomial", "normal", "uniform", "exponential")


def parting(one: Sequence[Evidence], other: Sequence[Evidence]) -> tuple[Evidence, Sighting] | None:
    """The first differing call in the training process; None if there is none, or nothing can be compared."""
    if not one or not other:
        return None
    first, second = one[0], other[0]
    for mine, its in zip(first.calls, second.calls, strict=False):
        if _place(first, mine) != _place(second, its):
            return first, Sighting(NAME, mine.site, "the two runs take different paths from here on", {}, mine.step)
        if mine.given != its.given or mine.result != its.result:
            return first, Sighting(NAME, mine.site, _said(first, mine, mine.given == its.given), {}, mine.step)
    return None


def _place(evidence: Evidence, call: Call) -> tuple[object, ...]:
    stack = [(evidence.files[file], line) for file, line in evidence.stacks[call.site]]
    return (call.name, *stack)


def _said(evidence: Evidence, call: Call, got_the_same: bool) -> str:
    if not got_the_same or call.name in _OF_DATA:
        likely = "data that loader workers or NumPy create without the seed, or the order of files or sets"
        return f"`{call.name}` gets different values here in a second run with the same seed; likely cause: {likely}"
    if any(part in call.name for part in _RANDOM):
        likely = "a generator that other code also uses, or that the program seeds with the time"
    elif evidence.process.device != "cpu":
        likely = "a kernel that is not deterministic (`torch.use_deterministic_algorithms`), or `cudnn.benchmark`"
    else:
        likely = "an operator that is not deterministic, or memory that was never written"
    return f"`{call.name}` returns different values for the same inputs in a second run; likely cause: {likely}"
