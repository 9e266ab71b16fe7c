"""The probe's observations, as the verdicts read them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from torchlint.verify.statements import Lines


@dataclass(frozen=True)
class Process:
    """The origin of the evidence: one process."""

    pid: int
    rank: str
    python: str
    torch: str
    device: str
    compiled: int
    """Graphs that `torch.compile` made: the probe does not observe the lines of their code."""


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

    Some of the `made` steps are measured. `steps`, `stale` (used before, never cleared, added to), `leftover` (from a
    backward that another optimizer has already stepped on), `wiped` (cleared after the backward) and `hungry` (no
    backward) count them by site. With a closure they count its `evaluations`. `added` and `added_stale` count
    backwards. `summed` steps used the sum of backwards from several places. In `lost` steps some parameters had
    gradients, and others had lost the gradients of a backward. `unmoved` counts sampled parameters with a gradient
    that never moved in the first steps. If it is `contested`, threads interfered with each other.
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
        """The number of its trainable parameters that ever had a gradient."""
        return self.trainable - self.without_gradient


@dataclass(frozen=True)
class Forward:
    """A module that ran with gradients off: its trainable parameters, those of an optimizer, those with a gradient.

    `unfed` has names of some that an optimizer has and that never got a gradient. If the module also ran
    `with_gradients`, missing gradients have another reason.
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

    The results were computed from the values without gradients, `at` another site.
    """

    at: int
    sources: str
    results: str
    site: int
    count: int


@dataclass(frozen=True)
class Retained:
    """Graphs that one site retained, and how many of them a later backward met."""

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
    """Graphs at a line that keeps them, in one thread.

    A life has five numbers: the visit of its birth, the last backward that used it, the visit before which it was
    freed (-1 for not yet), 1 if it was in the container, and the visit at which the container had released it or -1.
    `backwards` and `steps` are the numbers at each visit. `tensors` on the line had a graph. At `clean` visits the
    container only held items without a graph, at `graphs` visits others.
    `emptied` counts how often the loop that fills it emptied it. `holder` is a path to another holder of graphs from
    earlier visits, after `=` if it leads through the container. `weights` are bytes that the kept graphs held at two
    visits. A container is `chained` at visits at which it was a tensor whose graph leads back to earlier ones.
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
    """Gradients that one line cleared, by the optimizer's place in the list.

    `robbed` steps missed unused gradients that the line had cleared, of at most `parameters` parameters. `starved`
    parameters lost theirs to the line and had none at any step. `discards` has, for each step, the number of
    backwards before the last one whose gradients the line had cleared unused.
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
    """In-place changes by one line. In `leaves` of its visits without error, it named a leaf that requires gradients.

    `silent` are nodes that went backward with changed values and so other gradients, without an error. `untried` are
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
    """The counts for one finding, under names that its judge explains, and the errors that it raised.

    Errors are by type and message. `shown` is the judge's name for the object.
    """

    claim: int
    counts: dict[str, float]
    errors: dict[str, int]
    shown: str

    def __getitem__(self, name: str) -> float:
        return self.counts.get(name, 0)

    def numbers(self, *names: str) -> dict[str, float]:
        """The counts that exist."""
        return {name: self.counts[name] for name in names if name in self.counts}


@dataclass(frozen=True)
class Sighting:
    """A problem that a check observed without a finding; `first_step` is -1 if no step is known.

    With `advice`, the user's next action, it is a suspicion that this run could not decide.
    """

    check: str
    site: int
    message: str
    numbers: dict[str, float]
    first_step: int
    advice: str = ""


@dataclass(frozen=True)
class Raised:
    """An error of a module, an operator or a backward, and how often it was raised.

    After the first step, `is_late`, all errors of a site count together, and those of operators do not count.
    """

    site: int
    error: str
    count: int
    is_late: bool = False


@dataclass(frozen=True)
class Standing:
    """The place of a thread when the time was up."""

    thread: str
    site: int


@dataclass(frozen=True)
class Call:
    """A call of an operator, at a site and step, with checksums of its inputs and results."""

    site: int
    step: int
    name: str
    given: int
    result: int


@dataclass(frozen=True)
class Replica:
    """Checksums of the parameters of one optimizer, made at a site, after a step of its own in one rank.

    They are `promised` to be equal in all ranks if `DistributedDataParallel` wraps them, and `averaged` if the program
    reduced all of their gradients before the step.
    """

    site: int
    rank: int
    optimizer: int
    step: int
    averaged: bool
    promised: bool
    names: list[str]
    sums: list[int]


@dataclass(frozen=True)
class Batch:
    """A checksum of the batch that a network got in one of its first calls, in one of some ranks.

    The network is a `DistributedDataParallel` if it `is_wrapped`.
    """

    site: int
    rank: int
    ranks: int
    wrapper: int
    call: int
    sum: int
    is_wrapped: bool = True


@dataclass(frozen=True)
class Group:
    """Ranks that make collective calls together, and how many of these calls one of them has begun."""

    name: str
    ranks: list[int]
    calls: int


@dataclass(frozen=True)
class Collective:
    """A collective call, by the index of its group and its number there; `root` is a rank, or -1."""

    group: int
    number: int
    kind: str
    root: int
    site: int


@dataclass(frozen=True)
class Waiting:
    """A call that runs, or that raised an error; `peers` are the other ranks of a call between two."""

    group: int
    number: int
    kind: str
    peers: list[int]
    site: int
    seconds: float
    error: str


@dataclass(frozen=True)
class Member:
    """A rank, with the first and last of its collective calls, and those that it waits in.

    `began` is the time at which its process was first observed. `is_threaded` is whether several threads made calls,
    `is_joined` whether it was in a `Join` context. A rank that `has_ended`, without being stopped, makes no more calls.
    """

    rank: int
    world: int
    began: float
    is_threaded: bool
    is_joined: bool
    has_ended: bool
    groups: list[Group]
    calls: list[Collective]
    waiting: list[Waiting]


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
    """The observations of one process."""

    format: int
    process: Process
    status: str
    stopped: str
    error: str
    compiling: list[list[int]]
    """File and line of the operations that `torch.compile` was compiling when the error ended the program."""
    trouble: str
    """An error of the probe itself, or empty."""
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
    """Lines that checks have shown to be correct."""
    calls: list[Call] = field(default_factory=list)
    replicas: list[Replica] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    error_site: int = 0
    """The site of the error that ended the program; 0 if it is not known."""
    raised: list[Raised] = field(default_factory=list)
    idle: float = 0.0
    """When the time was up, the seconds since the last step; 0 until then."""
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

    @property
    def of_rank(self) -> str:
        """A text that names the rank of this process, before the name of a thread; empty without ranks."""
        rank = str(self.members[0].rank) if self.members else self.process.rank
        return f"rank {rank}: " if rank else ""

    def of_claim(self, index: int) -> Observed:
        """The counts for a finding; empty if no observer ran."""
        return next((item for item in self.observed if item.claim == index), Observed(index, {}, {}, ""))

    def was_compiling(self, file: str, lines: Lines) -> bool:
        """Whether the program failed while `torch.compile` compiled one of these lines."""
        number = self._numbers.get(file)
        return any(at == number and lines[0] <= line <= lines[1] for at, line in self.compiling)

    @property
    def has_ended(self) -> bool:
        """Whether the program ended by itself and without an error."""
        return self.status == "finished" and not self.stopped and not self.error

    @property
    def trains(self) -> bool:
        """Whether this process computes or uses gradients. A process that loads data does not."""
        return bool(self.steps or self.backwards or self.compiling)

    @property
    def has_anything(self) -> bool:
        """Whether something happened that a verdict could rest on."""
        return self.trains or bool(self.reached or self.members)


def _shown(path: str) -> str:
    """The path relative to this folder, if it is on the same drive."""
    try:
        return os.path.relpath(path)
    except ValueError:
        return path


def total(counts: Iterable[Sequence[int]]) -> int:
    """The sum of counts by site."""
    return sum(count for _, count in counts)
