"""One report per defect: consequences of another reported defect are left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from torchlint.verify.claims import Claim
from torchlint.verify.evidence import Evidence, Kept
from torchlint.verify.verdict import Answer, Verdict

_CONTAINERS = ("list", "dict", "deque", "tuple", "set", "defaultdict", "OrderedDict")
_WARNING = "pytorch-warning"
_FOLLOWS = {
    "step-without-backward": {
        "training-under-no-grad",
        "inplace-on-saved-tensor",
        "loss-outside-graph",
        "optimizer-without-gradients",
    },
    "parameter-without-gradient": {
        "training-under-no-grad",
        "cleared-before-step",
        "parameter-after-optimizer",
        "optimizer-without-gradients",
    },
    "optimizer-without-gradients": {"training-under-no-grad", "loss-outside-graph", "cleared-before-step"},
    "evaluation-in-training-mode": {"undone-evaluation-mode"},
    "nonfinite-value": {"class-weights-not-finite", "kl-div-input"},
    "samples-left-out": {"restarted-loader"},
    "epochs-alike": {"sorted-classes"},
    "differing-ranks": {"bypassed-wrapper"},
    "zero-loss-term": {"loss-over-one-class", "dead-loss-term", "gradient-through-rounding"},
    "frozen-statistics": {"frozen-part-in-training-mode"},
    "parameter-without-optimizer": {"parameter-after-optimizer"},
    "training-under-no-grad": {"loss-outside-graph"},
    "parameter-never-moves": {"vanishing-gradients", "zero-learning-rate", "gradients-clipped-to-nothing"},
    "memory-growth": {"undetached-accumulation"},
    "gradients-clipped-to-nothing": {"clip-before-unscale"},
    "program-error": {"training-under-no-grad", "loss-outside-graph"},
    "constant-loss": {"dead-units", "training-under-no-grad", "step-without-backward", "loss-over-one-class"},
    "gradient-of-zero": {
        "loss-over-one-class",
        "gradient-through-rounding",
        "gradients-clipped-to-nothing",
        "dead-units",
        "constant-loss",
        "cleared-before-step",
    },
}
"""Rules that are left out if one of their causes is reported: after a failed backward, the step has no gradients."""


_STRONGER = {
    "rounded-updates": {"parameter-never-moves"},
    "parameter-without-gradient": {"dead-loss-term"},
    "training-under-no-grad": {"reentrant-checkpoint"},
    "zero-loss-term": {"dead-units"},
}
"""Rules, each with those that say more about the same line."""
_EFFECTS = {"restarted-loader": ("samples-left-out", "samples"), "bypassed-wrapper": ("differing-ranks", "")}
"""Rules of the linter, each with the check that sees its consequence at another line, and a number that it reports."""


@dataclass(frozen=True)
class Blame:
    """A line with the run's verdict; `site` is set if the evidence named the line rather than its syntax."""

    claim: Claim
    verdict: Verdict
    evidence: Sequence[Evidence]
    site: int | None = None

    @property
    def kept(self) -> list[Kept]:
        """The container and graphs that a line was observed to keep."""
        return [item for seen in self.evidence for item in seen.keeps if item.claim == self.claim.index]


def without_consequences(blames: Iterable[Blame]) -> list[Blame]:
    """The blames that are not consequences of others."""
    named = [_by_its_name(blame) for blame in blames]
    rules = {blame.claim.rule for blame in named}
    asked = [blame for blame in named if blame.site is None]
    causes = [blame for blame in named if not _FOLLOWS.get(blame.claim.rule, set()) & rules]
    first_hand = [blame for blame in causes if not any(_explains(other, blame) for other in asked)]
    return [*_narrowest(_keepers(_unwarned(_apart(first_hand))))]


def with_causes(blames: Sequence[Blame], ran: Sequence[Claim]) -> list[Blame]:
    """The blames, and the linter's findings in lines that `ran` whose consequence the run has shown.

    There must be one of each: otherwise the run does not tell which belong together.
    """
    found = []
    for rule, (effect, number) in _EFFECTS.items():
        claims = [item for item in ran if item.rule == rule]
        shown = [blame for blame in blames if blame.claim.rule == effect]
        if len(claims) == 1 and shown and len({_place(blame) for blame in shown}) == 1:
            said = shown[0].verdict
            if said.answer is Answer.CONFIRMED and (not number or number in said.numbers):
                found.append(replace(shown[0], claim=claims[0], site=None))
    return [*blames, *found]


def _apart(blames: Sequence[Blame]) -> list[Blame]:
    """All but those that another rule states more strongly for the same line."""
    places = {(blame.claim.rule, _place(blame)) for blame in blames}
    return [
        blame
        for blame in blames
        if not any((rule, _place(blame)) in places for rule in _STRONGER.get(blame.claim.rule, ()))
    ]


def _unwarned(blames: Sequence[Blame]) -> list[Blame]:
    """All but warnings of lines that are blamed for more than a warning."""
    places = {_place(blame) for blame in blames if blame.claim.rule != _WARNING}
    return [blame for blame in blames if blame.claim.rule != _WARNING or _place(blame) not in places]


def _place(blame: Blame) -> tuple[str, int]:
    return blame.claim.file, blame.claim.statement[0]


def _explains(asked: Blame, proposed: Blame) -> bool:
    """Whether an examined line has done what the evidence proposes."""
    if proposed.site is None or asked.claim.rule != proposed.claim.rule:
        return False
    lines = (*asked.claim.blocks, *asked.claim.lines)
    return asked.claim.rule == "cleared-before-step" or any(
        seen.is_at(proposed.site, asked.claim.file, lines) for seen in proposed.evidence
    )


def _by_its_name(blame: Blame) -> Blame:
    """Whether PyTorch refused an in-place change at its own line: then the tensor is a leaf."""
    changes = (item for seen in blame.evidence for item in seen.changes if item.claim == blame.claim.index)
    if blame.claim.rule == "inplace-on-saved-tensor" and any(
        "leaf" in error for item in changes for error in item.errors
    ):
        return replace(blame, claim=replace(blame.claim, rule="inplace-on-leaf"))
    return blame


def _keepers(blames: Sequence[Blame]) -> Iterator[Blame]:
    """The lines that put graphs into a container, or else the lines that call an object which does."""
    keepers = [blame for blame in blames if blame.claim.rule == "undetached-accumulation" and blame.claim.index >= 0]
    direct = [blame for blame in keepers if any(_is_direct(item) for item in blame.kept)]
    objects = [blame for blame in keepers if not any(item.container == "Tensor" for item in blame.kept)]
    left = direct or objects
    return (blame for blame in blames if blame not in keepers or blame in left)


def _is_direct(kept: Kept) -> bool:
    return kept.container in _CONTAINERS or (kept.container == "Tensor" and bool(kept.chained))


def _narrowest(blames: Iterable[Blame]) -> Iterator[Blame]:
    """The no-grad block that contains all of these calls, among blocks that ran the same modules."""
    blames = list(blames)
    covered = {id(blame): _covered(blame) for blame in blames if blame.claim.rule == "training-under-no-grad"}
    for blame in blames:
        own = covered.get(id(blame), set())
        if not (own and any(own < other for other in covered.values())) and not (
            own and any(covered.get(id(other)) == own and _is_inside(blame, other) for other in blames)
        ):
            yield blame


def _is_inside(blame: Blame, other: Blame) -> bool:
    """Whether a line is in a block that is blamed, too."""
    first, last = blame.claim.statement
    blocks = other.claim.blocks if other is not blame and other.claim.file == blame.claim.file else ()
    return any(start <= first and last <= end for start, end in blocks) and other.claim.statement[1] < first


def _covered(blame: Blame) -> set[tuple[int, int]]:
    """The calls of untrained modules inside a block, by process and site."""
    return {
        (number, item.site)
        for number, seen in enumerate(blame.evidence)
        for item in seen.forwards
        if item.owned and not item.fed and seen.is_at(item.site, blame.claim.file, blame.claim.blocks)
    }
