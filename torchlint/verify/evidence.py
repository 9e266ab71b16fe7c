"""What the probe saw, as the verdicts read it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from torchlint.verify.statements import Lines


@dataclass(frozen=True)
class Process:
    """Where the evidence is from."""

    pid: int
    rank: str
    python: str
    torch: str
    device: str
    compiled: int
    """Graphs that `torch.compile` made: the lines of their code are not seen to run."""


@dataclass(frozen=True)
class Backwards:
    """Backward passes from one site."""

    site: int
    count: int
    retained: int
    errors: dict[str, int]
    first_error: int


@dataclass(frozen=True)
class Optimizer:
    """Gradients of one optimizer; of leaves updated by hand where `name` is empty.

    Of the `made` steps some are looked at. `steps`, `stale` (used before, never cleared, added to), `leftover` (of a
    backward that another optimizer has already stepped on), `wiped` (cleared after the backward) and `hungry` (no
    backward) are counts of those by site, where a closure is given of its `evaluations`; `added` and `added_stale` of
    backwards. `summed` steps used the sum of what backwards from several places gave; at `lost` ones some parameters
    had gradients, and others no longer those that a backward gave them. `unmoved` are parameters with a gradient that
    never moved, of samples at the first steps. Where it is `contested`, threads got into each other's way.
    """

    name: str
    parameters: int
    trainable: int
    without_gradient: int
    contested: bool
    made: int
    steps: list[list[int]]
    evaluations: list[list[int]]
    stale: list[list[int]]
    wiped: list[list[int]]
    hungry: list[list[int]]
    leftover: list[list[int]]
    added: list[list[int]]
    added_stale: list[list[int]]
    first_stale: int
    summed: int
    clears: int
    lost: int
    moved: int
    still: int
    unmoved: int
    ratios: list[float]

    @property
    def fed(self) -> int:
        """How many of its trainable parameters ever had a gradient."""
        return self.trainable - self.without_gradient


@dataclass(frozen=True)
class Forward:
    """A module that ran with gradients off: its trainable parameters, those of an optimizer, those with a gradient.

    `unfed` are the names of some that an optimizer has and that never got a gradient. Where it ran `with_gradients` as
    well, it is for some other reason if they got none.
    """

    module: str
    site: int
    calls: int
    trainable: int
    owned: int
    unfed: list[str]
    fed: int
    with_gradients: bool = False


@dataclass(frozen=True)
class Read:
    """A parameter of an optimizer that flagged code reads by this name, and whether it ever had a gradient."""

    claim: int
    name: str
    fed: bool


@dataclass(frozen=True)
class Cut:
    """Backwards from `site` through values named `sources` and a layer that worked on `results`.

    Those were made of the values without gradients, `at` another site.
    """

    at: int
    sources: str
    results: str
    site: int
    count: int


@dataclass(frozen=True)
class Retained:
    """Graphs that one site retained: of those that a later backward was seen after, how many it met."""

    site: int
    calls: int
    judged: int
    reused: int
    sizes: list[int]


@dataclass(frozen=True)
class Emptied:
    """Calls of `empty_cache` from one site; bytes are 0 without a GPU."""

    site: int
    calls: int
    seconds: float
    released: int


@dataclass(frozen=True)
class Anomaly:
    """Steps with anomaly detection on, by the site that switched it on, and step times with and without.

    At `library_sites` the program called a library that did it.
    """

    on_sites: list[list[int]]
    off_sites: list[int]
    library_sites: list[int]
    steps_on: int
    steps_off: int
    on_ms: list[float]
    off_ms: list[float]


@dataclass(frozen=True)
class Kept:
    """Graphs seen at a line that keeps them, in one thread.

    A life: the visit of its birth, the backward that used it last, the visit before which it died; -1 for not yet; 1
    if it was seen in the container; and the visit at which the container had let go of it, or -1. `backwards` and
    `steps` are how many there had been at each visit; `tensors` on the line had a graph. At `clean` visits the
    container held items without a graph only, at `graphs` visits others.
    It was `emptied` by the loop that fills it. `holder` is a path to who else holds graphs of earlier visits, after `=`
    if it leads through the container; `weights` are bytes that the kept graphs held at two visits. A watched container
    is `chained` at visits at which it was a tensor whose graph leads back to earlier ones.
    """

    claim: int
    visits: int
    backwards: list[int]
    steps: list[int]
    lives: list[list[int]]
    tensors: int
    clean: int
    graphs: int
    container: str
    emptied: bool
    shown: str
    bound: int
    holder: str
    weights: list[int]
    chained: int = 0


@dataclass(frozen=True)
class Cleared:
    """Gradients that one line took away: how often those of which optimizer, by its place in the list.

    `robbed` steps had no gradient where the line had taken one that no step had used, at most so many `parameters`;
    `starved` are parameters that lost theirs to the line and had none at any step. The `discards` are, of each step,
    how many backwards before the last one had given gradients for nothing: the line had cleared them.
    """

    claim: int
    visits: int
    optimizers: list[list[int]]
    robbed: int
    parameters: int
    starved: int
    first: int
    discards: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Changed:
    """Changes in place by one line. At `leaves` of its visits that passed, a leaf that requires gradients was named.

    `silent` are nodes that went backward with changed values that make other gradients, without an error; `untried` are
    changes whose effect on a custom Function could not be tried.
    """

    claim: int
    hits: int
    bumps: int
    tracked: int
    passed: int
    share: float
    leaves: int
    silent: dict[str, int]
    untried: int
    errors: dict[str, int]
    matched: dict[str, int]
    first_error: int
    backwards_after: int


@dataclass(frozen=True)
class Observed:
    """What was counted for one finding, under names that its judge explains, and the errors that it raised.

    Errors are by type and message; what is `shown` are the judge's words for what it is about.
    """

    claim: int
    counts: dict[str, float]
    errors: dict[str, int]
    shown: str

    def __getitem__(self, name: str) -> float:
        return self.counts.get(name, 0)

    def numbers(self, *names: str) -> dict[str, float]:
        """Those of the counts that there are."""
        return {name: self.counts[name] for name in names if name in self.counts}


@dataclass(frozen=True)
class Sighting:
    """What a check has seen without a finding to begin with; `first_step` is -1 where no step is known.

    With `advice`, which says what to do next, it is a suspicion that this run could not decide.
    """

    check: str
    site: int
    message: str
    numbers: dict[str, float]
    first_step: int
    advice: str = ""


@dataclass(frozen=True)
class Standing:
    """Where a thread was when the time was up."""

    thread: str
    site: int


@dataclass(frozen=True)
class Call:
    """An operator that was called, at a site and step, with checksums of what it got and gave."""

    site: int
    step: int
    name: str
    given: int
    result: int


@dataclass(frozen=True)
class Replica:
    """Checksums of the parameters of one optimizer, made at a site, after a step of its own in one rank.

    They are `promised` to be the same in all ranks if `DistributedDataParallel` was given them.
    """

    site: int
    rank: int
    optimizer: int
    step: int
    promised: bool
    names: list[str]
    sums: list[int]


@dataclass(frozen=True)
class Span:
    """Microseconds in which a process was waiting for data, in a forward pass, a backward or a step."""

    kind: str
    name: str
    start: int
    end: int
    step: int


@dataclass(frozen=True)
class Evidence:
    """What one process has seen."""

    format: int
    process: Process
    status: str
    stopped: str
    error: str
    compiling: list[list[int]]
    """File and line of the operations that `torch.compile` was at work on when the program died of the error."""
    trouble: str
    """What went wrong in the probe itself, or empty."""
    seconds: float
    steps: int
    files: list[str]
    stacks: list[list[list[int]]]
    backwards: list[Backwards]
    optimizers: list[Optimizer]
    forwards: list[Forward]
    reads: list[Read]
    cuts: list[Cut]
    retention: list[Retained]
    caches: list[Emptied]
    anomaly: Anomaly
    reached: list[int]
    unwatched: str
    keeps: list[Kept]
    clearings: list[Cleared]
    changes: list[Changed]
    observed: list[Observed]
    stride: int
    series: list[dict[str, float]] = field(default_factory=list)
    sightings: list[Sighting] = field(default_factory=list)
    acquittals: list[Sighting] = field(default_factory=list)
    """Where checks have seen the opposite of what they look for."""
    calls: list[Call] = field(default_factory=list)
    replicas: list[Replica] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    error_site: int = 0
    """Where the error was raised that the program died of; 0 if that is not known."""
    idle: float = 0.0
    """When the time was up, for how many seconds no step had ended; 0 until then."""
    standing: list[Standing] = field(default_factory=list)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {path: number for number, path in enumerate(self.files)}

    def is_at(self, site: int, file: str, ranges: Iterable[Lines]) -> bool:
        """Whether a frame of the site's stack is in one of these ranges of lines of `file`."""
        number = self._numbers.get(file)
        ranges = list(ranges)
        return any(
            frame_file == number and any(first <= line <= last for first, last in ranges)
            for frame_file, line in self.stacks[site]
        )

    def place(self, site: int) -> str:
        """The innermost line of a site, `train.py:12`; empty where no code of the user's was running."""
        stack = self.stacks[site] if site < len(self.stacks) else []
        return f"{_shown(self.files[stack[0][0]])}:{stack[0][1]}" if stack else ""

    def of_claim(self, index: int) -> Observed:
        """What was counted for a finding; nothing if nobody looked."""
        return next((item for item in self.observed if item.claim == index), Observed(index, {}, {}, ""))

    def was_compiling(self, file: str, lines: Lines) -> bool:
        """Whether the program died while `torch.compile` was at work on one of these lines."""
        number = self._numbers.get(file)
        return any(at == number and lines[0] <= line <= lines[1] for at, line in self.compiling)

    @property
    def has_ended(self) -> bool:
        """Whether the program came to its end, of itself and without an error."""
        return self.status == "finished" and not self.stopped and not self.error

    @property
    def trains(self) -> bool:
        """Whether gradients are computed or used in this process: not in one that loads data."""
        return bool(self.steps or self.backwards or self.compiling)

    @property
    def has_anything(self) -> bool:
        """Whether something happened that a verdict could rest on."""
        return self.trains or bool(self.reached)


def _shown(path: str) -> str:
    """Seen from this folder, if the path is on the same drive."""
    try:
        return os.path.relpath(path)
    except ValueError:
        return path


def total(counts: Iterable[Sequence[int]]) -> int:
    """The sum of counts by site."""
    return sum(count for _, count in counts)
