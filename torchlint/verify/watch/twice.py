"""Where two runs of a program part that should be the same."""

from __future__ import annotations

from collections.abc import Sequence

from torchlint.verify.evidence import Call, Evidence, Sighting

NAME = "differing-runs"
_OF_DATA = ("tensor", "as_tensor", "asarray", "from_numpy", "frombuffer")
"""Operators that make tensors of what is no tensor."""
_RANDOM = ("rand", "dropout", "bernoulli", "multinomial", "normal", "uniform", "exponential")


def parting(one: Sequence[Evidence], other: Sequence[Evidence]) -> tuple[Evidence, Sighting] | None:
    """The first call that differs, in the process that trains; None if none does, or nothing can be compared."""
    if not one or not other:
        return None
    first, second = one[0], other[0]
    for mine, its in zip(first.calls, second.calls, strict=False):
        if _place(first, mine) != _place(second, its):
            return first, Sighting(NAME, mine.site, "the two runs take different ways from here on", {}, mine.step)
        if mine.given != its.given or mine.result != its.result:
            return first, Sighting(NAME, mine.site, _said(first, mine, mine.given == its.given), {}, mine.step)
    return None


def _place(evidence: Evidence, call: Call) -> tuple[object, ...]:
    stack = [(evidence.files[file], line) for file, line in evidence.stacks[call.site]]
    return (call.name, *stack)


def _said(evidence: Evidence, call: Call, got_the_same: bool) -> str:
    if not got_the_same or call.name in _OF_DATA:
        likely = "data that a loader's workers or NumPy make without the seed, or the order of files or sets"
        return f"`{call.name}` gets other values here in a second run with the same seed: likely {likely}"
    if any(part in call.name for part in _RANDOM):
        likely = "a generator that something else draws from, or that the program seeds by the time"
    elif evidence.process.device != "cpu":
        likely = "a kernel that is not deterministic (`torch.use_deterministic_algorithms`), or `cudnn.benchmark`"
    else:
        likely = "an operator that is not deterministic, or memory that was never written"
    return f"`{call.name}` gives other values of the same here in a second run with the same seed: likely {likely}"
